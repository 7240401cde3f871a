// Golden frames and malformed frames shared with the C++ codec (tests/golden, written by a third
// implementation in Python).
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import {
  FrameType,
  OutputKind,
  decodeFrame,
  dtypeFromName,
  encodeFrame,
  resultPayloadBytes,
} from "./index.ts";
import type { FrameHeader, FrameRun } from "./index.ts";

const golden = fileURLToPath(new URL("../../../../tests/golden", import.meta.url));

interface GoldenRun {
  session: number;
  generation: number;
  first_position: number;
  count: number;
  output: keyof typeof OutputKind;
  candidate_count: number;
  marks: number;
}
interface GoldenFrame {
  name: string;
  type: keyof typeof FrameType;
  sequence: number;
  binding: number;
  stage: number;
  columns: number;
  dtype: string;
  queue_us: number;
  compute_us: number;
  vocabulary: number;
  runs: GoldenRun[];
  payload_hex: string;
}
const cases = JSON.parse(readFileSync(join(golden, "frames.json"), "utf8")) as {
  frames: GoldenFrame[];
  refused: { name: string; hex: string; problem: string }[];
};

function fromHex(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex.trim(), "hex"));
}

function headerOf(frame: GoldenFrame): FrameHeader {
  return {
    type: FrameType[frame.type],
    sequence: frame.sequence,
    binding: frame.binding,
    stage: frame.stage,
    rows: frame.runs.reduce((sum, run) => sum + run.count, 0),
    columns: frame.columns,
    dtype: dtypeFromName(frame.dtype)!,
    queueUs: frame.queue_us,
    computeUs: frame.compute_us,
  };
}

function runsOf(frame: GoldenFrame): FrameRun[] {
  return frame.runs.map((run) => ({
    session: run.session,
    generation: run.generation,
    firstPosition: run.first_position,
    count: run.count,
    output: OutputKind[run.output],
    candidateCount: run.candidate_count,
    ...(run.marks > 0 && { marks: run.marks }),
  }));
}

describe("golden frames", () => {
  it("are there", () => {
    expect(cases.frames.length).toBeGreaterThan(5);
    expect(cases.refused.length).toBeGreaterThan(20);
  });

  it.each(cases.frames.map((frame) => [frame.name, frame] as const))("%s", (name, frame) => {
    const bytes = fromHex(readFileSync(join(golden, `${name}.hex`), "utf8"));
    const decoded = decodeFrame(bytes);
    expect(decoded.header).toEqual(headerOf(frame));
    expect(decoded.runs).toEqual(runsOf(frame));
    const payload = fromHex(frame.payload_hex);
    expect(decoded.payload).toEqual(payload);
    expect(encodeFrame(headerOf(frame), runsOf(frame), payload)).toEqual(bytes);
    if (frame.type === "result") {
      expect(
        resultPayloadBytes(runsOf(frame), frame.columns, headerOf(frame).dtype, frame.vocabulary),
      ).toBe(payload.length);
    }
  });

  it("are read at any offset of a larger buffer", () => {
    const bytes = fromHex(readFileSync(join(golden, "step_hidden_f16.hex"), "utf8"));
    const larger = new Uint8Array(bytes.length + 7);
    larger.set(bytes, 3);
    expect(decodeFrame(larger.subarray(3, 3 + bytes.length))).toEqual(decodeFrame(bytes));
  });
});

describe("malformed frames are refused with the field and its value", () => {
  it.each(cases.refused.map((refused) => [refused.name, refused] as const))("%s", (_, refused) => {
    expect(() => decodeFrame(fromHex(refused.hex))).toThrow(refused.problem);
  });

  it("survives every single corrupted byte of the headers", () => {
    const bytes = fromHex(readFileSync(join(golden, "step_tokens_decode_batch.hex"), "utf8"));
    for (let at = 0; at < bytes.length; ++at) {
      for (const value of [0, 1, 0x7f, 0x80, 0xff]) {
        const broken = bytes.slice();
        broken[at] = value;
        try {
          const frame = decodeFrame(broken);
          expect(frame.header.rows).toBe(frame.runs.reduce((sum, run) => sum + run.count, 0));
        } catch (error) {
          expect((error as Error).name).toBe("WireError");
        }
      }
    }
  });
});
