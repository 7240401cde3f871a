#!/usr/bin/env python3
"""Writes expert_frames.json: shard messages with what they mean, and bytes that must be refused. Packs with struct from
the table in src/wire/expert_frame.h, independently of the codecs in C++ and TypeScript, which both read the file."""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
TYPE = {"dispatch": 1, "result": 2, "cancel": 3, "heartbeat": 4, "rows": 8, "given": 9}
F32, F16, STEPS, INTEGERS = 5, 6, 7, 8
SAME, FAILED, SUM, BEST, TAKES_STEPS = 2, 8, 16, 64, 128


def frame(type_, sequence, layer, expert, tokens=0, hidden=0, rows=b"", body=b"", same_rows=False, failed=False,
          may_sum=False, added=(), row_type=F32, best=False, takes_steps=False):
    return dict(type=type_, sequence=sequence, layer=layer, expert=expert, tokens=tokens, hidden=hidden, rows=rows,
                body=body, same_rows=same_rows, failed=failed, may_sum=may_sum, added=list(added), row_type=row_type,
                best=best, takes_steps=takes_steps)


def pack_frame(f):
    sent = b"" if f["same_rows"] else f["rows"]
    flags = SAME * f["same_rows"] + FAILED * f["failed"] + SUM * (f["may_sum"] or bool(f["added"]))
    flags += BEST * f["best"] + TAKES_STEPS * f["takes_steps"]
    others = struct.pack(f"<{len(f['added'])}HH", *f["added"], len(f["added"])) if f["added"] else b""
    payload = sent + others + f["body"]
    header = b"MoEx" + struct.pack("<HHIIHHIHBB", 2, TYPE[f["type"]], len(payload), f["sequence"], f["layer"],
                                   f["expert"], f["tokens"], f["hidden"], f["row_type"] * (f["tokens"] > 0), flags)
    assert len(header) == 28
    return header + payload


def pack(peer, frames):
    return struct.pack("<BI", 2, peer) + b"".join(pack_frame(f) for f in frames)


two = struct.pack("<8f", 0.5, -1.0, 65504.0, 0.0, 1e-30, -0.25, 3.0, 1.0)
one = two[:16]
halves = struct.pack("<8e", 0.5, -1.0, 65504.0, 0.0, 6e-8, -0.25, 3.0, 1.0)
steps = b"".join(n.to_bytes(3, "little", signed=True) for n in (0, -2, 2 ** 23 - 1, 1 - 2 ** 23))
# Rows of 4 columns: an exponent, then whole numbers of 16 bits.
integers = struct.pack("<B4h", 127, 16320, -8160, 0, -32639) + struct.pack("<B4h", 40, 1, 0, 0, 0)
route = struct.pack("<4f", 5.0, 127.0, 0.75, 0.25)  # experts, then weights
heartbeat = struct.pack("<IIQI", 3, 1250, 6 << 30, 64 << 20)

MESSAGES = {
    "dispatch_one_token": (7, [frame("dispatch", 1, 3, 5, 1, 4, one)]),
    "dispatch_same_rows": (4294967295, [
        frame("dispatch", 0x80000002, 47, 0, 2, 4, two),
        frame("dispatch", 0x80000002, 47, 127, 2, 4, two, same_rows=True),
        frame("dispatch", 0x80000002, 47, 9, 1, 4, two[:16]),
    ]),
    "results": (7, [
        frame("result", 1, 3, 5, 1, 4, one),
        frame("result", 1, 3, 6, body=b"Expert 6 of layer 3 is not held.", failed=True),
        frame("result", 1, 3, 7, 2, 4, two),
    ]),
    "dispatches_that_may_be_summed": (7, [
        frame("dispatch", 1, 3, 5, 2, 4, two, may_sum=True),
        frame("dispatch", 1, 3, 6, 2, 4, two, same_rows=True, may_sum=True),
    ]),
    "sums": (7, [
        frame("result", 1, 3, 5, 1, 4, one, added=[6, 258]),
        frame("result", 1, 3, 7, 2, 4, two, added=[65534]),
    ]),
    "the_best_of_ranges": (7, [
        frame("dispatch", 1, 35, 5, 1, 4, one, best=True),
        frame("dispatch", 1, 35, 6, 1, 4, one, same_rows=True, best=True),
    ]),
    "sums_in_steps": (7, [
        frame("dispatch", 1, 3, 5, 1, 4, one, may_sum=True, takes_steps=True),
        frame("dispatch", 1, 3, 6, 1, 4, one, same_rows=True, may_sum=True, takes_steps=True),
        frame("result", 1, 3, 5, 1, 4, steps, added=[6], row_type=STEPS),
        frame("result", 1, 3, 7, 1, 4, steps, row_type=STEPS),
    ]),
    "halves": (7, [
        frame("dispatch", 1, 3, 5, 2, 4, halves, row_type=F16),
        frame("dispatch", 1, 3, 6, 2, 4, halves, row_type=F16, same_rows=True),
        frame("result", 1, 3, 5, 1, 4, halves[:8], row_type=F16),
    ]),
    "integers": (7, [
        frame("dispatch", 1, 3, 5, 2, 4, integers, row_type=INTEGERS, may_sum=True, takes_steps=True),
        frame("dispatch", 1, 3, 6, 2, 4, integers, row_type=INTEGERS, same_rows=True, may_sum=True, takes_steps=True),
        frame("dispatch", 1, 35, 1, 1, 4, integers[:9], row_type=INTEGERS, best=True),
    ]),
    "rows_with_routes": (0, [frame("rows", 9, 3, 2, 2, 4, two[:16] + route + two[16:] + route)]),
    "rows_of_groups": (0, [frame("rows", 10, 3, 0, 2, 4, two)]),
    "given": (0, [frame("given", 9, 3, 2, 2, 4, two)]),
    "given_up": (0, [frame("given", 9, 3, 2, body=b"Nobody holds expert 6 of layer 3.", failed=True)]),
    "cancels": (7, [frame("cancel", 1, 3, 5), frame("cancel", 0x80000001, 4, 65535)]),
    "heartbeat": (0, [frame("heartbeat", 12, 0, 0, body=heartbeat)]),
    "heartbeat_then_dispatch": (2, [frame("heartbeat", 0, 0, 0, body=heartbeat),
                                    frame("dispatch", 1, 3, 5, 1, 4, one)]),
}


def patched(name, base, offset, data, problem, cut=None, extra=b""):
    raw = bytearray(pack(*MESSAGES[base]))
    raw[offset:offset + len(data)] = data
    return dict(name=name, hex=(bytes(raw)[:cut] + extra).hex(), problem=problem)


ONE = "dispatch_one_token"  # head 5, header 28, payload 16
SECOND = 5 + 28 + 32  # where the second frame of dispatch_same_rows begins
REFUSED = [
    dict(name="empty", hex="", problem="nothing"),
    patched("other_message", ONE, 0, b"\x01", "begins with 1"),
    patched("no_frame", ONE, 0, b"", "5 bytes", cut=5),
    patched("half_a_header", ONE, 0, b"", "32 bytes", cut=32),
    patched("wrong_magic", ONE, 5, b"m", "6d6f4578"),
    patched("magic_reversed", ONE, 5, b"xEoM", "78456f4d"),
    patched("version", ONE, 9, b"\x01", "version 1"),
    patched("type_zero", ONE, 11, b"\x00", "type 0"),
    patched("type_five", ONE, 11, b"\x05", "type 5"),
    patched("type_ten", ONE, 11, b"\x0a", "type 10"),
    patched("rows_without_a_route", "rows_with_routes", 23, b"\x00", "64 bytes, expected 32"),
    patched("rows_in_f16", "rows_with_routes", 31, b"\x06", "element type 6"),
    patched("rows_with_flags", "rows_with_routes", 32, b"\x10", "flags 16"),
    patched("given_in_steps", "given", 31, b"\x07", "element type 7"),
    patched("given_a_sum", "given", 32, b"\x10", "flags 16"),
    patched("given_and_failed", "given", 32, b"\x08", "that failed"),
    patched("payload_beyond_the_end", ONE, 13, b"\x11", "17 bytes of payload"),
    patched("payload_huge", ONE, 13, b"\xff\xff\xff\xff", "4294967295 bytes"),
    patched("payload_cut", ONE, 0, b"", "16 bytes of payload", cut=48),
    patched("trailing_byte", ONE, 0, b"", "Frame 1", extra=b"\x00"),
    patched("payload_short", ONE, 13, b"\x0f", "15 bytes, expected 16", cut=48),
    patched("no_tokens", ONE, 25, b"\x00", "0 tokens"),
    patched("too_many_tokens", ONE, 25, struct.pack("<I", 65537), "65537 tokens"),
    patched("no_columns", ONE, 29, b"\x00\x00", "0 columns"),
    patched("rows_beyond_the_limit", ONE, 25, struct.pack("<IH", 65536, 65535), "expected at most 62914560"),
    patched("dtype_none", ONE, 31, b"\x00", "element type 0"),
    patched("dtype_f16", ONE, 31, b"\x01", "element type 1"),
    patched("dispatch_in_steps", ONE, 31, b"\x07", "element type 7"),
    patched("dtype_eight", "results", 31, b"\x08", "element type 8"),
    patched("result_takes_steps", "results", 32, b"\x80", "flags 128"),
    patched("floats_as_steps", "results", 31, b"\x07", "16 bytes, expected 12"),
    patched("halves_that_take_steps", "halves", 5 + 27, b"\x80", "rows of f16 and flags 128"),
    patched("floats_as_halves", ONE, 31, b"\x06", "16 bytes, expected 8"),
    patched("unknown_flag", ONE, 32, b"\x81", "flags 129"),
    patched("sum_of_none", "results", 5 + 28 + 16 + 28 + 32 + 27, b"\x10", "sum of 16256 more"),
    patched("sum_of_less_than_two", "sums", 5 + 28 + 16 + 4, b"\x00", "sum of 0 more"),
    patched("sum_names_itself", "sums", 5 + 28 + 16, b"\x05", "names expert 5 after 5"),
    patched("sum_falls", "sums", 5 + 28 + 16 + 2, struct.pack("<H", 6), "names expert 6 after 6"),
    patched("sum_without_rows", "sums", 5 + 28 + 16 + 4, b"\x03", "names expert"),
    patched("dispatch_failed", ONE, 32, b"\x08", "flags 8"),
    patched("dispatch_flag_one", ONE, 32, b"\x01", "flags 1"),
    patched("dispatch_flag_four", ONE, 32, b"\x04", "flags 4"),
    patched("same_with_rows", ONE, 32, b"\x02", "16 bytes, expected 0"),
    patched("same_of_other_layer", "dispatch_same_rows", SECOND + 16, b"\x2e", "same sequence"),
    patched("same_of_other_sequence", "dispatch_same_rows", SECOND + 12, b"\x03", "same sequence"),
    patched("same_of_other_tokens", "dispatch_same_rows", SECOND + 20, b"\x01", "same sequence"),
    patched("same_of_other_type", "halves", 5 + 28 + 16 + 26, b"\x05", "same sequence"),
    patched("sum_of_halves", "halves", 5 + 27, b"\x10", "rows of f16 and flags 16"),
    patched("the_best_of_halves", "halves", 5 + 27, b"\x40", "rows of f16 and flags 64"),
    patched("result_with_best", "results", 32, b"\x40", "flags 64"),
    patched("same_of_other_columns", "dispatch_same_rows", SECOND + 24, b"\x05", "same sequence"),
    patched("result_with_flag_four", "results", 32, b"\x04", "flags 4"),
    patched("result_same", "results", 32, b"\x02", "flags 2"),
    patched("failed_with_rows", "results", 32, b"\x08", "that failed"),
    patched("failed_with_flag_one", "results", 5 + 28 + 16 + 27, b"\x09", "flags 9"),
    patched("cancel_with_payload", "cancels", 13, b"\x01", "1 bytes of payload", cut=33, extra=b"\x00"),
    patched("cancel_with_tokens", "cancels", 25, b"\x01", "1 tokens"),
    patched("cancel_with_flags", "cancels", 32, b"\x01", "flags 1"),
    patched("heartbeat_short", "heartbeat", 13, b"\x13", "19 bytes", cut=33 + 19),
    patched("heartbeat_of_layer", "heartbeat", 21, b"\x01", "layer 1"),
]
silent = frame("result", 1, 3, 6, failed=True)
first = frame("dispatch", 1, 3, 5, 1, 4, one, same_rows=True)
REFUSED.append(dict(name="same_as_nothing", hex=pack(7, [first]).hex(), problem="repeats the rows before it"))
REFUSED.append(dict(name="failed_silently", hex=pack(7, [silent]).hex(), problem="0 bytes of payload"))
REFUSED.append(dict(name="failed_at_length", hex=pack(7, [dict(silent, body=b"x" * 1025)]).hex(),
                    problem="1025 bytes of payload"))
REFUSED.append(dict(name="too_many_frames", hex=pack(7, [frame("cancel", 1, 3, 5)] * 1025).hex(),
                    problem="1024 frames"))

for name, row, problem in (
        ("exponent_too_low", struct.pack("<B4h", 39, 1, 2, 3, 4), "exponent 39"),
        ("exponent_of_infinity", struct.pack("<B4h", 255, 1, 2, 3, 4), "exponent 255"),
        ("integer_too_large", struct.pack("<B4h", 127, 1, -32640, 3, 4), "whole number of 32640"),
        ("integers_cut_off", integers[:8], "8 bytes"),
):
    REFUSED.append(dict(name=name, hex=pack(7, [frame("dispatch", 1, 3, 5, 1, 4, row, row_type=INTEGERS)]).hex(),
                        problem=problem))
REFUSED.append(dict(name="result_of_integers", problem="element type 8",
                    hex=pack(7, [frame("result", 1, 3, 5, 1, 4, integers[:9], row_type=INTEGERS)]).hex()))

if __name__ == "__main__":
    messages = []
    for name, (peer, frames) in MESSAGES.items():
        described = [{k: (v.hex() if isinstance(v, bytes) else v) for k, v in f.items()} for f in frames]
        messages.append(dict(name=name, peer=peer, frames=described, hex=pack(peer, frames).hex()))
    (HERE / "expert_frames.json").write_text(json.dumps(dict(messages=messages, refused=REFUSED), indent=1) + "\n")
