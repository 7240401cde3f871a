#!/usr/bin/env python3
"""What quantisation costs: perplexity and task accuracy of a model folder in several formats.

Converts the folder with `weft convert`, measures perplexity with `weft eval --text` on text that
the corpus generator writes with a seed of its own, and asks the held-out tasks through `weft serve`
with temperature 0. Prints a Markdown table. Standard library only.

    python3 tools/tinymodel/quality.py models/weft-tiny --weft build/release/weft
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import tempfile
import urllib.request

from chat_format import document_text
from corpus import tasks
from generate import document
from judge import is_right, reply_length

TEXT_SEED = 424242  # not one of those that the training corpus is written with
# Tasks by group of the table.
GROUPS = {
    "facts": ("facts", "facts backwards", "facts yes-no", "facts two steps", "facts follow-up"),
    "one-digit arithmetic": ("one-digit +", "one-digit -", "one-digit *"),
    "two- and three-digit": ("two-digit +", "two-digit -", "two-digit *", "three-digit +",
                             "three-digit -"),
}


def write_documents(path: pathlib.Path, count: int) -> None:
    rng = random.Random(TEXT_SEED)
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(count):
            out.write(json.dumps({"text": document_text(document(rng))}) + "\n")


class Server:
    """`weft serve` on a free port, as long as the block lasts."""

    def __init__(self, weft: str, package: pathlib.Path):
        self._process = subprocess.Popen(
            [weft, "serve", str(package), "--port", "0", "--context", "1024", "--sessions", "8"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        self.base = None
        for line in self._process.stdout:
            found = re.search(r"chat:\s+(http:\S+?)/$", line.rstrip())
            if found:
                self.base = found.group(1)
            if "Ready" in line:
                return
        raise SystemExit("weft serve did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()

    def ask(self, messages, tokens: int) -> str:
        body = {"model": "quality", "temperature": 0, "max_tokens": tokens,
                "messages": [{"role": role, "content": content} for role, content in messages]}
        request = urllib.request.Request(
            self.base + "/v1/chat/completions", json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)["choices"][0]["message"]["content"]


def task_accuracy(server: Server, scale: float) -> dict[str, float]:
    built = tasks.build(scale=scale)
    accuracy = {}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for group, names in GROUPS.items():
            cases = [(name, case) for name in names for case in built[name]]
            replies = pool.map(
                lambda c: server.ask(c[1]["messages"], reply_length(c[0], c[1])), cases)
            right = sum(is_right(case, reply) for (_, case), reply in zip(cases, replies))
            accuracy[f"{group} ({len(cases)})"] = right / len(cases)
    return accuracy


def measure(args, quant: str, folder: pathlib.Path, documents: pathlib.Path) -> dict:
    package = folder / quant
    subprocess.run([args.weft, "convert", str(args.model), str(package), "--quant", quant,
                    "--name", "quality"], check=True, capture_output=True)
    size = sum(p.stat().st_size for p in (package / "blobs").iterdir())
    evaluated = json.loads(subprocess.run(
        [args.weft, "eval", str(package), "--text", str(documents)], check=True,
        capture_output=True, text=True).stdout)
    with Server(args.weft, package) as server:
        accuracy = task_accuracy(server, args.scale)
    return {"megabytes": size / 1e6, "accuracy": accuracy, **evaluated}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path, help="Hugging Face folder")
    parser.add_argument("--weft", default="build/release/weft")
    parser.add_argument("--formats", default="f32,f16,q8,q4")
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--scale", type=float, default=0.3, help="share of the cases")
    args = parser.parse_args()
    base = None
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        documents = folder / "documents.jsonl"
        write_documents(documents, args.documents)
        for quant in args.formats.split(","):
            row = measure(args, quant, folder, documents)
            if base is None:
                base = row["perplexity"]
                print(f"{row['tokens']} tokens of text\n")
                head = ["format", "blobs", "perplexity", "change", *row["accuracy"]]
                print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
            change = 100 * (row["perplexity"] / base - 1)
            cells = [quant, f"{row['megabytes']:.1f} MB", f"{row['perplexity']:.5f}",
                     f"{change:+.4f}%", *(f"{100 * a:.1f}%" for a in row["accuracy"].values())]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
