#!/usr/bin/env python3
"""Writes the model card (README.md) and the picture of the loss curve into the model folder."""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

INTRO = {
    "qwen3": """\
The model that comes with weft, so that a swarm answers the moment it starts. A chat model of the
Qwen3 architecture with {{PARAMETERS}} parameters: 8 layers, hidden size 256, 4 heads of 64 with 2
key-value heads, feed-forward size 768, tied embeddings, a byte-level BPE of 4,096 ids, float16.""",
    "qwen3_moe": """\
The mixture-of-experts twin of weft-tiny, for trying what weft does with experts: the same text,
tokenizer and training, the Qwen3-MoE architecture. {{PARAMETERS}} parameters, of which a token uses
2.8 million: 8 layers, hidden size 192, 3 heads of 64 with one key-value head, 16 experts of
width 64 of which 4 are chosen, tied embeddings, a byte-level BPE of 4,096 ids, float16.""",
}
ALSO = {
    "qwen3": "",
    "qwen3_moe": """ A hundredth of the
load-balancing loss of Switch Transformers keeps all experts in use.""",
}
COMMAND = {
    "qwen3": "tools/tinymodel/make_model.sh models/weft-tiny {{MEGABYTES}} {{BUDGET}}",
    "qwen3_moe": "ARCH=qwen3_moe TOKENIZER=models/weft-tiny \\\n"
                 "  tools/tinymodel/make_model.sh models/weft-tiny-moe {{MEGABYTES}} {{BUDGET}}",
}
CARD = pathlib.Path(__file__).with_name("card.md")
SHOWN = (0, 4)  # sample conversations that the card shows


def picture(log: dict, path: pathlib.Path) -> None:
    curve = [p for p in log["curve"] if p["step"] > 50]
    figure, axes = plt.subplots(figsize=(6.4, 3.2), dpi=90)
    axes.plot([p["tokens"] / 1e6 for p in curve], [p["loss"] for p in curve], linewidth=0.9)
    axes.set_yscale("log")
    axes.set_xlabel("tokens trained on, millions")
    axes.set_ylabel("loss on written text, nats")
    axes.grid(alpha=0.3, which="both")
    figure.tight_layout()
    figure.savefig(path)


def fill_card(log: dict, metrics: dict, samples: list[str], args) -> str:
    """card.md with all {{SLOTS}} filled in."""
    rows = [f"| {task} | {m['cases']} | {100 * m['accuracy']:.1f}% |"
            for task, m in metrics.items()]
    slots = {
        "NAME": args.model.name, "INTRO": INTRO[log["arch"]], "ALSO": ALSO[log["arch"]],
        "COMMAND": COMMAND[log["arch"]],
        "PARAMETERS": f"{log['parameters']:,}", "STEPS": f"{log['steps']:,}",
        "TOKENS": f"{log['tokens'] / 1e6:,.0f}", "SECONDS": f"{log['seconds']:.0f}",
        "EPOCHS": str(log["epochs"]), "MEGABYTES": f"{args.corpus_megabytes:.0f}",
        "CORPUS_TOKENS": f"{log['corpus_tokens'] / 1e6:.0f}", "BUDGET": f"{args.seconds:.0f}",
        "LOSS": f"{log['curve'][-1]['loss']:.3f}", "TABLE": "\n".join(rows),
        "SAMPLE": "\n\n---\n\n".join(samples[i] for i in SHOWN),
    }
    card = CARD.read_text()
    for slot, value in slots.items():
        card = card.replace("{{" + slot + "}}", value)
    return card


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--results", required=True, type=pathlib.Path,
                        help="folder with train_log.json, metrics.json and samples.md")
    parser.add_argument("--corpus-megabytes", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="training time asked for")
    args = parser.parse_args()
    log = json.loads((args.results / "train_log.json").read_text())
    metrics = json.loads((args.results / "metrics.json").read_text())
    samples = (args.results / "samples.md").read_text().strip().split("\n\n---\n\n")
    picture(log, args.model / "loss.png")
    (args.model / "README.md").write_text(fill_card(log, metrics, samples, args))


if __name__ == "__main__":
    main()
