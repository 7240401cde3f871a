#!/usr/bin/env python3
"""Writes the golden data frames: frames.json (what each frame means, and which frames must be refused) and one .hex
file for each good frame. Packs bytes from the table in src/wire/data_frame.h with struct, independently of the
codecs in C++ and TypeScript, which both read these files in their tests."""
import json
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).parent
VERSION = int(re.search(r"kProtocolVersion = (\d+)", (HERE / "../../src/wire/version.h").read_text())[1])
MAGIC = b"WEFT"
TYPE = {"step": 1, "result": 2}
DTYPE = {"f32": 0, "f16": 1, "bf16": 2, "i32": 3}
OUTPUT = {"none": 0, "hidden": 1, "argmax": 2, "candidates": 3, "logits": 4, "draw": 5}


def run(session, generation, first_position, count, output="none", candidate_count=0, marks=0):
    return dict(session=session, generation=generation, first_position=first_position, count=count, output=output,
                candidate_count=candidate_count, marks=marks)


def pack(frame):
    payload = bytes.fromhex(frame["payload_hex"])
    runs = b"".join(
        struct.pack("<IIIHBB", r["session"], r["generation"], r["first_position"], r["count"],
                    OUTPUT[r["output"]] | r["marks"] << 4,
                    r["candidate_count"] - (r["output"] == "candidates")) for r in frame["runs"])
    body = runs + payload
    header = MAGIC + struct.pack("<HBBIIIHHIIBBHI", VERSION, TYPE[frame["type"]], 0, len(body), frame["sequence"],
                                 frame["binding"], frame["stage"], len(frame["runs"]),
                                 sum(r["count"] for r in frame["runs"]), frame["columns"], DTYPE[frame["dtype"]], 0,
                                 frame["queue_us"] // 100, frame["compute_us"])
    assert len(header) == 40
    return header + body


def frame(name, type_, sequence, binding, stage, columns, dtype, runs, payload, queue_us=0, compute_us=0, vocabulary=0):
    return dict(name=name, type=type_, sequence=sequence, binding=binding, stage=stage, columns=columns, dtype=dtype,
                queue_us=queue_us, compute_us=compute_us, vocabulary=vocabulary, runs=runs, payload_hex=payload.hex())


argmax = struct.pack("<Iff", 151935, 17.25, 0.5)
candidates = struct.pack("<Iff", 3, 9.5, 1.75) + b"".join(
    struct.pack("<If", i, v) for i, v in [(7, 9.0), (4095, 8.25), (0, -1.5)])
FRAMES = [
    frame("step_tokens_prefill", "step", 1, 1, 0, 1, "i32", [run(1, 0, 0, 5, "hidden", marks=3)],
          struct.pack("<5i", 1, 4095, 0, 151643, 2)),
    frame("step_tokens_decode_batch", "step", 4294967295, 7, 0, 1, "i32",
          [run(3, 2, 128, 1, "hidden"), run(4, 0, 4095, 1, "hidden")], struct.pack("<2i", 17, 18)),
    frame("step_hidden_f16", "step", 2, 1, 1, 4, "f16", [run(1, 0, 0, 2, "argmax")],
          struct.pack("<8e", 0.5, -1.0, 65504.0, 0.0, 6e-8, -0.25, 3.0, 1.0)),
    frame("step_hidden_f32_candidates", "step", 9, 2, 3, 2, "f32", [run(8, 1, 31, 1, "candidates", 256)],
          struct.pack("<2f", 1.5, -2.5)),
    frame("step_only_token", "step", 10, 2, 0, 1, "i32", [run(8, 1, 31, 1, "logits")], struct.pack("<i", 42)),
    frame("step_draws", "step", 11, 2, 1, 2, "f16",
          [run(8, 1, 32, 1, "draw"), run(9, 0, 4, 1, "draw", 20), run(10, 0, 4, 1, "none", marks=8)],
          struct.pack("<6e", 1.5, -2.5, 0, 1, 2, 3)),
    frame("result_hidden_bf16", "result", 2, 1, 0, 3, "bf16", [run(1, 0, 0, 1, "hidden"), run(2, 5, 9, 1, "none")],
          bytes.fromhex("803f00c00000"), queue_us=1200, compute_us=31415),
    frame("result_none", "result", 3, 1, 1, 0, "f16", [run(1, 0, 0, 128)], b"", compute_us=9),
    frame("result_argmax", "result", 4, 1, 1, 0, "f16", [run(1, 0, 128, 1, "argmax"), run(2, 1, 3, 1, "argmax")],
          argmax + struct.pack("<Iff", 0, -3.0, 0.0), queue_us=6553500, compute_us=4294967295, vocabulary=151936),
    frame("result_candidates", "result", 5, 1, 1, 0, "f32", [run(1, 0, 129, 1, "candidates", 3)], candidates,
          vocabulary=4096),
    frame("result_draws", "result", 7, 1, 1, 0, "f32",
          [run(1, 0, 130, 1, "draw", 2), run(2, 0, 5, 1, "draw"), run(3, 0, 5, 1, "argmax")],
          struct.pack("<Iff", 11, 4.5, 9.5) + struct.pack("<IfIf", 7, 9.0, 4095, 8.25) +
          struct.pack("<Iff", 4095, -1.25, 2.5) + struct.pack("<Iff", 0, 1.0, 0.5), vocabulary=4096),
    frame("result_logits", "result", 6, 1, 1, 0, "f32", [run(1, 0, 0, 2, "logits"), run(2, 0, 0, 1, "argmax")],
          struct.pack("<6f", 1, 2, 3, -1, -2, -3) + struct.pack("<Iff", 2, 3.0, 1.0), vocabulary=3),
]


def patched(name, base, offset, data, problem, cut=None, extra=b""):
    raw = bytearray(pack(next(f for f in FRAMES if f["name"] == base)))
    raw[offset:offset + len(data)] = data
    raw = bytes(raw)[:cut] + extra
    return dict(name=name, hex=raw.hex(), problem=problem)


REFUSED = [
    dict(name="empty", hex="", problem="0 bytes"),
    patched("short_header", "step_tokens_prefill", 0, b"", "39 bytes", cut=39),
    patched("wrong_magic", "step_tokens_prefill", 0, b"w", "WEFT"),
    patched("wrong_version", "step_tokens_prefill", 4, struct.pack("<H", VERSION + 1), f"version {VERSION + 1}"),
    patched("type_zero", "step_tokens_prefill", 6, b"\x00", "type 0"),
    patched("type_unknown", "step_tokens_prefill", 6, b"\x03", "type 3"),
    patched("flags_set", "step_tokens_prefill", 7, b"\x01", "flags 1"),
    patched("length_too_long", "step_tokens_prefill", 8, b"\xff\xff\xff\xff", "4294967295 bytes"),
    patched("cut_in_payload", "step_tokens_prefill", 0, b"", "announces 36 bytes", cut=75),
    patched("trailing_byte", "step_tokens_prefill", 0, b"", "announces 36 bytes", extra=b"\x00"),
    patched("no_runs", "step_tokens_prefill", 22, b"\x00\x00", "0 runs"),
    patched("more_runs_than_bytes", "step_tokens_prefill", 22, b"\xff\xff", "65535 runs"),
    patched("rows_do_not_add_up", "step_tokens_prefill", 24, b"\x06\x00\x00\x00", "6 rows"),
    patched("zero_columns", "step_tokens_prefill", 28, b"\x00\x00\x00\x00", "0 columns"),
    patched("two_columns_of_tokens", "step_tokens_prefill", 28, b"\x02\x00\x00\x00", "2 columns"),
    patched("huge_columns", "step_hidden_f16", 28, b"\xff\xff\xff\xff", "payload"),
    patched("unknown_dtype", "step_tokens_prefill", 32, b"\x04", "element type 4"),
    patched("block_dtype", "step_tokens_prefill", 32, b"\x11", "element type 17"),
    patched("reserved_set", "step_tokens_prefill", 33, b"\x01", "reserved"),
    patched("step_with_times", "step_tokens_prefill", 36, b"\x01", "times"),
    patched("run_of_no_rows", "step_tokens_prefill", 52, b"\x00\x00", "0 rows"),
    patched("position_overflow", "step_tokens_prefill", 48, b"\xfd\xff\xff\xff", "position 4294967293"),
    patched("unknown_output", "step_tokens_prefill", 54, b"\x06", "output kind 6"),
    patched("too_many_marks", "step_tokens_prefill", 54, b"\x91", "9 marks"),
    patched("too_many_beside_a_draw", "step_draws", 55, b"\x15", "21 tokens beside a draw"),
    patched("candidates_not_asked", "step_tokens_prefill", 55, b"\x01", "candidate byte 1"),
    patched("session_twice", "step_tokens_decode_batch", 56, b"\x03\x00\x00\x00", "Session 3"),
    patched("hidden_of_token_type", "result_hidden_bf16", 32, b"\x03", "i32"),
    patched("hidden_without_columns", "result_hidden_bf16", 28, b"\x00", "0 columns"),
    patched("columns_without_hidden", "result_none", 28, b"\x01", "1 columns"),
    patched("hidden_mixed_with_argmax", "result_hidden_bf16", 70, b"\x02", "mixes"),
    patched("result_payload_short", "result_argmax", 8, struct.pack("<I", 32 + 20), "20 bytes", cut=40 + 32 + 20),
    patched("logits_not_whole", "result_logits", 8, struct.pack("<I", 32 + 32), "32 bytes", cut=40 + 32 + 32),
]

if __name__ == "__main__":
    for f in FRAMES:
        (HERE / (f["name"] + ".hex")).write_text(pack(f).hex() + "\n")
    (HERE / "frames.json").write_text(
        json.dumps(dict(frames=FRAMES, refused=REFUSED), indent=1, sort_keys=False) + "\n")
