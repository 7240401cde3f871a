#!/usr/bin/env python3
"""Writes the training corpus of weft-tiny: JSON lines, one document each, in several shards.

A document is {"messages": [[role, content], ...]} or {"text": "..."}. Standard library only. The
same seed, size and shard count give the same bytes. Held-out evaluation cases are not written here;
evaluate.py builds them from corpus.tasks.
"""

import argparse
import json
import multiprocessing
import pathlib
import random

from corpus import conversation, raw


def document(rng) -> dict:
    """One document; the mix of kinds is decided here."""
    kind = rng.choices(("single", "short", "long", "very long", "raw"), (62, 24, 4, 0.4, 9.6))[0]
    if kind == "raw":
        return {"text": raw.document(rng)}
    if kind == "single":
        talk = conversation.single(rng)
    else:
        turns = {"short": rng.randrange(2, 6), "long": rng.randrange(8, 20),
                 "very long": rng.randrange(60, 220)}[kind]
        talk = conversation.chat(rng, turns)
    return {"messages": talk.messages}


def write_shard(task) -> int:
    path, seed, byte_count = task
    rng, written = random.Random(seed), 0
    with open(path, "w", encoding="utf-8") as out:
        while written < byte_count:
            line = json.dumps(document(rng), ensure_ascii=False)
            out.write(line + "\n")
            written += len(line) + 1
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for shard-NN.jsonl")
    parser.add_argument("--megabytes", type=float, default=60, help="size of the whole corpus")
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    share = int(args.megabytes * 1e6 / args.shards)
    jobs = [(args.out / f"shard-{i:02d}.jsonl", args.seed * 1000 + i, share)
            for i in range(args.shards)]
    with multiprocessing.Pool(min(args.shards, multiprocessing.cpu_count())) as pool:
        total = sum(pool.imap_unordered(write_shard, jobs))
    print(f"{total / 1e6:.1f} MB in {args.shards} shards under {args.out}")


if __name__ == "__main__":
    main()
