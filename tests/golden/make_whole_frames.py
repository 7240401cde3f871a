#!/usr/bin/env python3
"""Packs the whole-model frames of whole_frames.json by the layout in src/wire/whole_frame.h, independently
of both codecs, which test against the result. Run it after a change of the layout."""
import json
import pathlib
import re
import struct

here = pathlib.Path(__file__).parent
root = here.parent.parent
version = int(re.search(r"kProtocolVersion = (\d+)", (root / "src/wire/version.h").read_text())[1])
TYPES = {"generate": 1, "tokens": 2, "stop": 3, "run_here": 4, "whole_model": 5}


def head(frame, type_name=None, magic=b"WGEN", number=version):
    kind = TYPES[type_name or frame["type"]]
    fields = (magic, number, kind, 0, frame.get("sequence", 0), frame.get("binding", 0))
    return struct.pack("<4sHBBII", *fields)


def generate(f):
    out = head(f) + struct.pack(
        "<IIIiHHfIfffffQHHI", f["session"], f["generation"], f["position"], f["token"], f["count"],
        f["interval"], f["temperature"], f["top_k"], f["top_p"], f["min_p"], f["repetition"],
        f["presence"], f["frequency"], int(f["seed"]), len(f["stops"]), len(f["biases"]),
        len(f["seen"]))
    out += b"".join(struct.pack("<i", token) for token in f["stops"])
    out += b"".join(struct.pack("<if", *bias) for bias in f["biases"])
    return out + b"".join(struct.pack("<iI", *seen) for seen in f["seen"])


def tokens(f):
    out = head(f) + struct.pack("<HBBI", len(f["tokens"]), f["last"], 0, f["compute_us"])
    return out + b"".join(struct.pack("<i", token) for token in f["tokens"])


def value(f):
    return head(f) + struct.pack("<I", f.get("value", 0)) + f.get("text", "").encode()


FRAMES = [
    {"type": "generate", "sequence": 7, "binding": 3, "session": 9, "generation": 2, "position": 41,
     "token": 151935, "count": 64, "interval": 16, "temperature": 0.75, "top_k": 40, "top_p": 0.5,
     "min_p": 0.125, "repetition": 1.25, "presence": -0.5, "frequency": 2, "seed": str(2**64 - 3),
     "stops": [2, 151643], "biases": [[17, -100], [3, 1.5]], "seen": [[5, 2], [151935, 1]]},
    {"type": "generate", "sequence": 1, "binding": 1, "session": 1, "generation": 0, "position": 0,
     "token": 0, "count": 1, "interval": 1, "temperature": 0, "top_k": 0, "top_p": 1, "min_p": 0,
     "repetition": 1, "presence": 0, "frequency": 0, "seed": "0", "stops": [], "biases": [],
     "seen": []},
    {"type": "tokens", "sequence": 7, "binding": 3, "last": 0, "compute_us": 99000,
     "tokens": [5, 151935, 0]},
    {"type": "tokens", "sequence": 7, "binding": 3, "last": 1, "compute_us": 0, "tokens": []},
    {"type": "stop", "sequence": 7, "binding": 3},
    {"type": "run_here", "value": 1},
    {"type": "run_here", "value": 0},
    {"type": "run_here", "value": 1, "text": "0123456789abcdef0123456789abcdef"},
    {"type": "whole_model", "value": 0},
    {"type": "whole_model", "value": 2},
    {"type": "whole_model", "value": 3, "text": "The owner \u2013 of this swarm \u2013 is asked."},
    {"type": "whole_model", "value": 1, "text": "n" * 512},
]
PACK = {"generate": generate, "tokens": tokens}


def refused():
    first = generate(FRAMES[0])
    few = tokens(FRAMES[2])
    yes = value(FRAMES[5])
    return {
        "nothing": b"",
        "only a head": first[:16],
        "a data frame": b"WEFT" + first[4:],
        "another version": head(FRAMES[0], number=version + 1) + first[16:],
        "type 6": first[:6] + b"\x06" + first[7:],
        "flags": first[:7] + b"\x01" + first[8:],
        "a byte short": first[:-1],
        "a byte long": first + b"\0",
        "no tokens wanted": first[:32] + b"\0\0" + first[34:],
        "interval 0": first[:34] + b"\0\0" + first[36:],
        "a negative token": first[:28] + b"\xff\xff\xff\xff" + first[32:],
        "a million seen tokens": first[:76] + struct.pack("<I", 1 << 20) + first[80:],
        "more tokens than there are": few[:16] + b"\x04\0" + few[18:],
        "last 2": few[:18] + b"\x02" + few[19:],
        "a reserved byte": few[:19] + b"\x01" + few[20:],
        "run here 2": yes[:16] + struct.pack("<I", 2),
        "stop with a value": value({"type": "stop", "value": 1}),
        "stop with a text": value({"type": "stop", "text": "x"}),
        "run here without a value": yes[:16],
        "whole model 4": value({"type": "whole_model", "value": 4}),
        "whole model with a long text": value({"type": "whole_model", "text": "n" * 513}),
    }


for frame in FRAMES:
    frame["hex"] = PACK.get(frame["type"], value)(frame).hex()
golden = {"frames": FRAMES, "refused": {name: b.hex() for name, b in refused().items()}}
(here / "whole_frames.json").write_text(json.dumps(golden, indent=1) + "\n")
