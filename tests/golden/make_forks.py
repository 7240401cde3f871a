#!/usr/bin/env python3
"""Writes forks.json: fork frames field by field with their bytes, and bytes that no decoder may accept. Packed with
struct from the table in src/wire/fork_frame.h, independently of the codecs in C++ and TypeScript."""
import json
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).parent
VERSION = int(re.search(r"kProtocolVersion = (\d+)", (HERE / "../../src/wire/version.h").read_text())[1])
FIELDS = ["binding", "stage", "from", "session", "generation", "position_count"]


def pack(binding, stage, from_, session, generation, position_count, version=VERSION, zeros=(0, 0)):
    return b"WFRK" + struct.pack("<HHIHHIIII", version, zeros[0], binding, stage, zeros[1], from_, session, generation,
                                 position_count)


FRAMES = [(7, 2, 3, 4, 1, 2000), (4294967295, 65535, 0, 4294967295, 4294967294, 1), (1, 0, 12, 11, 9, 4294967295)]
GOOD = pack(*FRAMES[0])
REFUSED = [
    ("nothing", b"", "0 bytes"),
    ("a byte short", GOOD[:-1], "31 bytes"),
    ("a byte long", GOOD + b"\0", "33 bytes"),
    ("a data frame", b"WEFT" + GOOD[4:], "WFRK"),
    ("another version", pack(*FRAMES[0], version=VERSION + 1), f"version {VERSION + 1}"),
    ("a reserved byte", pack(*FRAMES[0], zeros=(1, 0)), "1 at byte 6"),
    ("another reserved byte", pack(*FRAMES[0], zeros=(0, 256)), "256 at byte 14"),
    ("with itself", pack(7, 2, 3, 3, 1, 2000), "session 3 with itself"),
    ("no positions", pack(7, 2, 3, 4, 1, 0), "0 positions"),
]

(HERE / "forks.json").write_text(json.dumps(dict(
    frames=[dict(zip(FIELDS, each)) | dict(hex=pack(*each).hex()) for each in FRAMES],
    refused=[dict(name=name, hex=data.hex(), problem=problem) for name, data, problem in REFUSED]), indent=1) + "\n")
