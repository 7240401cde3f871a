#!/usr/bin/env python3
"""Writes probe_rows.json by the formula in src/wire/probe_rows.h, independently of both languages,
which test against the result."""
import json
import pathlib

MASK = 0xFFFFFFFF


def mix(h):
    h = (h ^ (h >> 16)) * 0x85EBCA6B & MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & MASK
    return h ^ (h >> 16)


def value(seed, row, column):
    h = mix((seed & MASK) + row * 0x85EBCA6B + (column + 1) * 0x9E3779B1 & MASK)
    return mix(h ^ seed >> 32) % 128 - 64


def case(seed, rows, columns):
    parts = [value(seed, r, c) for r in range(rows) for c in range(columns)]
    count = min(32, columns)
    chosen = [i * columns // count for i in range(count)]
    return {"seed": str(seed), "rows": rows, "columns": columns, "parts_of_1024": parts,
            "chosen": chosen}


cases = [case(0, 1, 4), case(2**64 - 3, 2, 33), case(0x0123456789ABCDEF, 3, 70)]
path = pathlib.Path(__file__).parent / "probe_rows.json"
path.write_text("[\n" + ",\n".join(json.dumps(each) for each in cases) + "\n]\n")
