#!/usr/bin/env python3
"""Writes expert_frames.json: shard messages with what they mean, and bytes that must be refused. Packs with struct from
the table in src/wire/expert_frame.h, independently of the codecs in C++ and TypeScript, which both read the file."""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
TYPE = {"dispatch": 1, "result": 2, "cancel": 3, "heartbeat": 4, "weight_sync": 5}
DTYPE = {"none": 0, "f16": 1, "bf16": 2, "f32": 5}
LZ4, SAME, GATES, FAILED, SUM = 1, 2, 4, 8, 16


def frame(type_, sequence, layer, expert, tokens=0, hidden=0, dtype="none", rows=b"", gates=b"", body=b"",
          same_rows=False, failed=False, packed=None, may_sum=False, added=()):
    """`packed` is what is sent for the rows where it is not the rows."""
    return dict(type=type_, sequence=sequence, layer=layer, expert=expert, tokens=tokens, hidden=hidden, dtype=dtype,
                rows=rows, gates=gates, body=body, same_rows=same_rows, failed=failed, packed=packed, may_sum=may_sum,
                added=list(added))


def pack_frame(f):
    sent = b"" if f["same_rows"] else f["packed"] if f["packed"] is not None else f["rows"]
    flags = (LZ4 * (f["packed"] is not None) + SAME * f["same_rows"] + GATES * bool(f["gates"]) + FAILED * f["failed"]
             + SUM * (f["may_sum"] or bool(f["added"])))
    others = struct.pack(f"<{len(f['added'])}HH", *f["added"], len(f["added"])) if f["added"] else b""
    payload = sent + others + f["gates"] + f["body"]
    header = b"MoEx" + struct.pack("<HHIIHHIHBB", 1, TYPE[f["type"]], len(payload), f["sequence"], f["layer"],
                                   f["expert"], f["tokens"], f["hidden"], DTYPE[f["dtype"]], flags)
    assert len(header) == 28
    return header + payload


def pack(peer, frames):
    return struct.pack("<BI", 2, peer) + b"".join(pack_frame(f) for f in frames)


two = struct.pack("<8f", 0.5, -1.0, 65504.0, 0.0, 1e-30, -0.25, 3.0, 1.0)
half = struct.pack("<4e", 0.5, -1.0, 3.0, 65504.0)
# An LZ4 block of 64 zero bytes by hand: one literal, a match of 4 + 15 + 39 bytes at offset 1, five last literals.
zeros = bytes([0x1F, 0x00, 0x01, 0x00, 39, 0x50]) + bytes(5)
heartbeat = struct.pack("<IIQII", 3, 1250, 6 << 30, 64 << 20, 3)

MESSAGES = {
    "dispatch_one_token": (7, [frame("dispatch", 1, 3, 5, 1, 4, "f16", half)]),
    "dispatch_same_rows": (4294967295, [
        frame("dispatch", 0x80000002, 47, 0, 2, 4, "f32", two),
        frame("dispatch", 0x80000002, 47, 127, 2, 4, "f32", two, same_rows=True),
        frame("dispatch", 0x80000002, 47, 9, 1, 4, "f32", two[:16]),
    ]),
    "dispatch_gates": (1, [
        frame("dispatch", 9, 0, 1, 2, 4, "f32", two, gates=struct.pack("<2e", 0.75, 0.25)),
        frame("dispatch", 9, 0, 2, 2, 4, "f32", two, gates=struct.pack("<2e", 0.5, 1.0), same_rows=True),
    ]),
    "dispatch_lz4": (1, [frame("dispatch", 9, 0, 1, 1, 16, "f32", bytes(64), packed=zeros,
                               gates=struct.pack("<e", 0.75))]),
    "results": (7, [
        frame("result", 1, 3, 5, 1, 4, "bf16", bytes.fromhex("803f00c000004040")),
        frame("result", 1, 3, 6, body=b"Expert 6 of layer 3 is not held.", failed=True),
        frame("result", 1, 3, 7, 2, 4, "f32", two),
    ]),
    "dispatches_that_may_be_summed": (7, [
        frame("dispatch", 1, 3, 5, 2, 4, "f32", two, may_sum=True),
        frame("dispatch", 1, 3, 6, 2, 4, "f32", two, same_rows=True, may_sum=True),
    ]),
    "sums": (7, [
        frame("result", 1, 3, 5, 1, 4, "f16", half, added=[6, 258]),
        frame("result", 1, 3, 7, 2, 4, "f32", two, added=[65534]),
    ]),
    "sum_lz4": (7, [frame("result", 1, 3, 7, 1, 16, "f32", bytes(64), packed=zeros, added=[65534])]),
    "cancels": (7, [frame("cancel", 1, 3, 5), frame("cancel", 0x80000001, 4, 65535)]),
    "heartbeat": (0, [frame("heartbeat", 12, 0, 0, body=heartbeat)]),
    "weight_sync_then_dispatch": (2, [frame("weight_sync", 0, 0, 0, body=struct.pack("<I", 77)),
                                      frame("dispatch", 1, 3, 5, 1, 4, "f16", half)]),
}


def patched(name, base, offset, data, problem, cut=None, extra=b""):
    raw = bytearray(pack(*MESSAGES[base]))
    raw[offset:offset + len(data)] = data
    return dict(name=name, hex=(bytes(raw)[:cut] + extra).hex(), problem=problem)


ONE = "dispatch_one_token"  # head 5, header 28, payload 8
SECOND = 5 + 28 + 32  # where the second frame of dispatch_same_rows begins
REFUSED = [
    dict(name="empty", hex="", problem="nothing"),
    patched("other_message", ONE, 0, b"\x01", "begins with 1"),
    patched("no_frame", ONE, 0, b"", "5 bytes", cut=5),
    patched("half_a_header", ONE, 0, b"", "32 bytes", cut=32),
    patched("wrong_magic", ONE, 5, b"m", "6d6f4578"),
    patched("magic_reversed", ONE, 5, b"xEoM", "78456f4d"),
    patched("version", ONE, 9, b"\x02", "version 2"),
    patched("type_zero", ONE, 11, b"\x00", "type 0"),
    patched("type_eight", ONE, 11, b"\x08", "type 8"),
    patched("payload_beyond_the_end", ONE, 13, b"\x09", "9 bytes of payload"),
    patched("payload_huge", ONE, 13, b"\xff\xff\xff\xff", "4294967295 bytes"),
    patched("payload_cut", ONE, 0, b"", "8 bytes of payload", cut=40),
    patched("trailing_byte", ONE, 0, b"", "Frame 1", extra=b"\x00"),
    patched("payload_short", ONE, 13, b"\x07", "7 bytes, expected 8", cut=40),
    patched("no_tokens", ONE, 25, b"\x00", "0 tokens"),
    patched("too_many_tokens", ONE, 25, struct.pack("<I", 65537), "65537 tokens"),
    patched("no_columns", ONE, 29, b"\x00\x00", "0 columns"),
    patched("rows_beyond_the_limit", ONE, 25, struct.pack("<IH", 65536, 65535), "expected at most 62914560"),
    patched("dtype_none", ONE, 31, b"\x00", "element type 0"),
    patched("int8", ONE, 31, b"\x03", "int8"),
    patched("int4", ONE, 31, b"\x04", "int4"),
    patched("dtype_six", ONE, 31, b"\x06", "element type 6"),
    patched("unknown_flag", ONE, 32, b"\x40", "flags 64"),
    patched("sum_of_none", "results", 5 + 28 + 8 + 28 + 32 + 27, b"\x10", "sum of 16256 more"),
    patched("sum_of_less_than_two", "sums", 5 + 28 + 8 + 4, b"\x00", "sum of 0 more"),
    patched("sum_names_itself", "sums", 5 + 28 + 8, b"\x05", "names expert 5 after 5"),
    patched("sum_falls", "sums", 5 + 28 + 8 + 2, struct.pack("<H", 6), "names expert 6 after 6"),
    patched("sum_without_rows", "sums", 5 + 28 + 8 + 4, b"\x03", "names expert"),
    patched("dispatch_failed", ONE, 32, b"\x08", "flags 8"),
    patched("gates_missing", ONE, 32, b"\x04", "6 bytes, expected 8"),
    patched("gates_alone", ONE, 25, struct.pack("<IHBB", 5, 4, 1, 4), "10 of gate weights"),
    patched("not_lz4", ONE, 32, b"\x01", "expected less"),
    patched("lz4_and_same", "dispatch_lz4", 32, b"\x07", "compresses"),
    patched("lz4_broken", "dispatch_lz4", 33 + 2, b"\x02", "LZ4"),
    patched("lz4_too_short", "dispatch_lz4", 33 + 4, b"\x26", "LZ4"),
    patched("lz4_too_long", "dispatch_lz4", 33 + 4, b"\x28", "LZ4"),
    patched("same_with_rows", ONE, 32, b"\x02", "8 bytes, expected 0"),
    patched("same_of_other_layer", "dispatch_same_rows", SECOND + 16, b"\x2e", "same sequence"),
    patched("same_of_other_sequence", "dispatch_same_rows", SECOND + 12, b"\x03", "same sequence"),
    patched("same_of_other_tokens", "dispatch_same_rows", SECOND + 20, b"\x01", "same sequence"),
    patched("same_of_other_columns", "dispatch_same_rows", SECOND + 24, b"\x05", "same sequence"),
    patched("same_of_other_dtype", "dispatch_same_rows", SECOND + 26, b"\x01", "same sequence"),
    patched("result_with_gates", "results", 32, b"\x04", "flags 4"),
    patched("result_same", "results", 32, b"\x02", "flags 2"),
    patched("failed_with_rows", "results", 32, b"\x08", "that failed"),
    patched("failed_and_lz4", "results", 5 + 28 + 8 + 27, b"\x09", "flags 9"),
    patched("cancel_with_payload", "cancels", 13, b"\x01", "1 bytes of payload", cut=33, extra=b"\x00"),
    patched("cancel_with_tokens", "cancels", 25, b"\x01", "1 tokens"),
    patched("cancel_with_flags", "cancels", 32, b"\x01", "flags 1"),
    patched("heartbeat_short", "heartbeat", 13, b"\x17", "23 bytes", cut=33 + 23),
    patched("heartbeat_of_layer", "heartbeat", 21, b"\x01", "layer 1"),
    patched("weight_sync_short", "weight_sync_then_dispatch", 13, b"\x03", "3 bytes of payload"),
]
silent = frame("result", 1, 3, 6, failed=True)
first = frame("dispatch", 1, 3, 5, 1, 4, "f16", half, same_rows=True)
REFUSED.append(dict(name="same_as_nothing", hex=pack(7, [first]).hex(), problem="repeats the rows before it"))
REFUSED.append(dict(name="failed_silently", hex=pack(7, [silent]).hex(), problem="0 bytes of payload"))
REFUSED.append(dict(name="failed_at_length", hex=pack(7, [dict(silent, body=b"x" * 1025)]).hex(),
                    problem="1025 bytes of payload"))
REFUSED.append(dict(name="too_many_frames", hex=pack(7, [frame("cancel", 1, 3, 5)] * 1025).hex(),
                    problem="1024 frames"))

if __name__ == "__main__":
    messages = []
    for name, (peer, frames) in MESSAGES.items():
        described = [{k: (v.hex() if isinstance(v, bytes) else v) for k, v in f.items() if k != "packed"}
                     for f in frames]
        messages.append(dict(name=name, peer=peer, lz4=any(f["packed"] is not None for f in frames),
                             frames=described, hex=pack(peer, frames).hex()))
    (HERE / "expert_frames.json").write_text(json.dumps(dict(messages=messages, refused=REFUSED), indent=1) + "\n")
