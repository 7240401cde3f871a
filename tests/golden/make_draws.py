#!/usr/bin/env python3
"""Writes the golden draws: tokens drawn from rows of logits that formulas give, by the definitions of base/random.h
and of a draw (temperature, top_k, top_p, min_p in this order) in Python's doubles. The samplers in C++, TypeScript
and WGSL test against them, so that the same seed and position draw the same token on every device.

draws.json is made of CASES below. sampler.json keeps its own cases, the edges of every parameter and large
vocabularies; only their tokens are written anew."""
import json
import math
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
MASK = 0xFFFFFFFF


def uniform(seed, position):
    """53 bits of Philox-4x32-10; counter = (position, 0, 0 = first draw, 0), key = seed."""
    counter = [position & MASK, position >> 32, 0, 0]
    key = [seed & MASK, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & MASK, (a >> 32) ^ counter[3] ^ key[1], a & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return (counter[0] << 21 | counter[1] >> 11) / 2**53


def logits_of(vocabulary, salt):
    return [((i * i * 37 + i * 101 + salt) % 1009) / 64 - 8 for i in range(vocabulary)]


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def random_logits(case):
    """A few high ones and many low ones, each operation rounded to f32; with `levels` many equal ones."""
    logits = []
    for i in range(case["vocabulary"]):
        u = math.floor(uniform(case["logits_seed"], i) * 2**24) / 2**24
        square = f32(u * u)
        logit = f32(f32(square * square) * case["spread"])
        levels = case["levels"]
        logits.append(math.floor(f32(logit * levels)) / levels if levels > 0 else logit)
    return logits


def draw(case, position, logits):
    logits = list(logits)
    for token, bias in case["logit_bias"]:
        logits[token] += bias
    for token in set(case["history"]):
        r = case["repetition_penalty"]
        logits[token] = logits[token] / r if logits[token] > 0 else logits[token] * r
        logits[token] -= case["frequency_penalty"] * case["history"].count(token) + case["presence_penalty"]
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    if case["temperature"] == 0:
        return order[0]
    weights = [math.exp((logits[i] - logits[order[0]]) / case["temperature"]) for i in order]
    if case["top_k"] > 0:
        weights = weights[:case["top_k"]]
    if case["top_p"] < 1:
        wanted, total, kept = case["top_p"] * sum(weights), 0, 0
        while kept < len(weights) and (kept == 0 or total < wanted):
            total += weights[kept]
            kept += 1
        weights = weights[:kept]
    if case["min_p"] > 0:
        weights = [w for w in weights if w >= case["min_p"]]
    target, passed = uniform(int(case["seed"]), position) * sum(weights), 0
    for rank, weight in enumerate(weights):
        passed += weight
        if passed > target:
            return order[rank]
    return order[len(weights) - 1]


def case(name, vocabulary=700, salt=0, seed="1234567890123456789", **params):
    neutral = dict(temperature=1, top_k=0, top_p=1, min_p=0, repetition_penalty=1, presence_penalty=0,
                   frequency_penalty=0, logit_bias=[], history=[])
    made = dict(name=name, vocabulary=vocabulary, salt=salt, seed=seed, first_position=3, **{**neutral, **params})
    logits = logits_of(vocabulary, salt)
    made["tokens"] = [draw(made, 3 + i, logits) for i in range(200)]
    return made


def redrawn(case):
    """The same case with its tokens from here. Parameters are f32 in every engine."""
    logits = random_logits(case)
    size = case["vocabulary"]
    rounded = {key: f32(value) if isinstance(value, float) else value for key, value in case.items()}
    rounded["history"] = [i for i in case["history"] if i < size]  # others are ignored
    rounded["logit_bias"] = [[i, f32(bias)] for i, bias in case["logit_bias"] if i < size]
    first = case["first_position"]
    return {**case, "tokens": [draw(rounded, first + i, logits) for i in range(case["count"])]}


CASES = [
    case("plain"),
    case("cold", temperature=0.75, salt=5),
    case("warm", temperature=1.5, salt=9, seed="18446744073709551615"),
    case("hot", temperature=2, salt=77),
    case("hot_of_many", temperature=2, vocabulary=5000),
    case("top_k", temperature=2, top_k=300),
    case("top_p", temperature=1.5, top_p=0.875),
    case("min_p", temperature=2, min_p=0.03125),
    case("all_three", temperature=1.5, top_k=500, top_p=0.9375, min_p=0.015625),
    case("penalties", repetition_penalty=1.25, presence_penalty=0.5, frequency_penalty=0.75, temperature=1.5,
         history=[3, 3, 3, 8, 120, 120, 699]),
    case("bias", temperature=2, logit_bias=[[0, 14], [1, -100], [699, 9.5]]),
    case("both", temperature=1, repetition_penalty=2, logit_bias=[[4, 12], [5, -3]], history=[4, 5, 6]),
    case("greedy_after_penalties", temperature=0, presence_penalty=2, history=list(range(0, 700, 2))),
]

if __name__ == "__main__":
    lines = ",\n".join(json.dumps(c) for c in CASES)
    (HERE / "draws.json").write_text('{"cases": [\n' + lines + "\n]}\n")
    whole_rows = json.loads((HERE / "sampler.json").read_text())["cases"]
    lines = ",\n".join("    " + json.dumps(redrawn(c), separators=(",", ":")) for c in whole_rows)
    (HERE / "sampler.json").write_text('{\n  "cases": [\n' + lines + "\n  ]\n}\n")
