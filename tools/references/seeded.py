"""Weights of test checkpoints by the rule of tools/testdata/seeded.mjs, whose head explains it."""
import json
import os

import numpy as np

TYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U8": np.uint8}


def mix(x):
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x85EBCA6B)
    x = x ^ (x >> np.uint32(13))
    x = x * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def uniform(seed, count):
    """[count] f64 in [0, 1)."""
    steps = np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x9E3779B9)
    return (mix(steps + np.uint32(seed)) >> np.uint32(8)).astype(np.float64) / 2**24


def run_bytes(run):
    """The little-endian bytes of {type, count, seed, low, high}."""
    kind, low, high = run["type"], float(run["low"]), float(run["high"])
    span = high - low + 1 if kind == "U8" else high - low
    values = low + span * uniform(run["seed"], run["count"])
    if kind == "U8":
        return np.floor(values).astype(np.uint8).tobytes()
    values = values.astype(np.float32)
    if kind == "BF16":
        bits = values.view(np.uint32)
        odd = (bits >> np.uint32(16)) & np.uint32(1)
        return ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16).tobytes()
    return values.astype(TYPES[kind]).tobytes()


def check_folder(folder):
    """How many runs of a folder's runs.json its files hold; raises where one differs."""
    with open(os.path.join(folder, "runs.json"), encoding="utf-8") as file:
        lists = json.load(file)
    for name, runs in lists.items():
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        for run in runs:
            made = run_bytes(run)
            if content[run["at"] : run["at"] + len(made)] != made:
                raise ValueError(f"{folder}/{name}: the run at byte {run['at']} differs")
    return sum(len(runs) for runs in lists.values())
