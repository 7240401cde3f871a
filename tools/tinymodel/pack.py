#!/usr/bin/env python3
"""Tokenizes the corpus and packs it into fixed rows for training.

Two pools: rows of 1,024 predictions for most documents, rows of 4,096 for long conversations and
every twelfth other document. Each row starts at the start of a document; what a row's end cuts off
starts the next row again, so nothing is lost. Beside each token stands a weight class: 0 not
trained, 1 read text (users, system prompts, markup), 10 written text.
"""

import argparse
import json
import multiprocessing
import os
import pathlib

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
from tokenizers import Tokenizer

from chat_format import document_text

SHORT, LONG = 1024, 4096
LONG_EVERY = 12
_IM_START, _IM_END = 1, 2


def weights(ids: list[int], is_chat: bool, assistant: list[int]) -> list[int]:
    """Weight class per token: what the assistant writes, up to and including the end mark, counts
    fully."""
    if not is_chat:
        return [10] * len(ids)
    out, i = [1] * len(ids), 0
    while True:
        try:
            i = ids.index(_IM_START, i) + 1
        except ValueError:
            return out
        if ids[i:i + len(assistant)] == assistant:
            i += len(assistant)
            end = ids.index(_IM_END, i) + 1
            out[i:end] = [10] * (end - i)
            i = end


class Rows:
    """Collects documents into rows of length + 1 tokens (inputs and their successors)."""

    def __init__(self, length: int):
        self.width, self.ids, self.weight = length + 1, [], []
        self._row, self._row_weight = [], []

    def add(self, ids, weight) -> None:
        """Appends a document; one that does not fit fills the row and starts the next row again
        from its beginning."""
        fits, was_empty = len(self._row) + len(ids) <= self.width, not self._row
        self._row, self._row_weight = self._row + ids, self._row_weight + weight
        if len(self._row) < self.width:
            return
        self._emit()
        again = not fits and not was_empty
        self._row, self._row_weight = (list(ids), list(weight)) if again else ([], [])
        if len(self._row) >= self.width:
            self._emit()
            self._row, self._row_weight = [], []

    def _emit(self) -> None:
        self.ids.append(np.array(self._row[:self.width], dtype=np.uint16))
        self.weight.append(np.array(self._row_weight[:self.width], dtype=np.uint8))

    def arrays(self):
        if not self.ids:
            return np.zeros((0, self.width), np.uint16), np.zeros((0, self.width), np.uint8)
        return np.stack(self.ids), np.stack(self.weight)


def pack_shard(task):
    path, tokenizer_path = task
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    assistant = tokenizer.encode("assistant\n").ids
    short, long, count = Rows(SHORT), Rows(LONG), 0
    with open(path, encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    for start in range(0, len(documents), 2000):
        batch = documents[start:start + 2000]
        for document, encoded in zip(
            batch, tokenizer.encode_batch([document_text(d) for d in batch]),
        ):
            ids = encoded.ids
            count += 1
            pool = long if len(ids) > SHORT or count % LONG_EVERY == 0 else short
            pool.add(ids, weights(ids, "messages" in document, assistant))
    return short.arrays(), long.arrays()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True, type=pathlib.Path)
    parser.add_argument("--tokenizer", required=True, type=pathlib.Path, help="tokenizer.json")
    parser.add_argument(
        "--out", required=True, type=pathlib.Path, help="folder for the packed arrays",
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    jobs = [(p, args.tokenizer) for p in sorted(args.corpus.glob("shard-*.jsonl"))]
    with multiprocessing.Pool(min(len(jobs), multiprocessing.cpu_count())) as pool:
        parts = pool.map(pack_shard, jobs, chunksize=1)
    for index, name in enumerate(("short", "long")):
        ids = np.concatenate([p[index][0] for p in parts])
        weight = np.concatenate([p[index][1] for p in parts])
        np.save(args.out / f"{name}-ids.npy", ids)
        np.save(args.out / f"{name}-weights.npy", weight)
        written = 100 * (weight == 10).mean()
        print(f"{name}: {ids.shape[0]} rows, {ids.size / 1e6:.1f} M tokens, {written:.0f}% written")


if __name__ == "__main__":
    main()
