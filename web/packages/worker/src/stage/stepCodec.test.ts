// Step frames against the model they are for, and results as bytes. The oracle for the frames
// themselves is tests/golden; halves are compared with values that are exact in both formats.
import { describe, expect, it } from "vitest";

import type { StepOutput } from "@weft/engine";
import { DType, FrameType, OutputKind, decodeFrame, encodeFrame } from "@weft/wire";
import type { Frame, FrameRun } from "@weft/wire";

import { parseManifest } from "../download/manifest.ts";
import type { Manifest } from "../download/manifest.ts";
import { SamplingTable } from "./samplingTable.ts";
import { decodeStep, encodeResult } from "./stepCodec.ts";
import { fakePackage, kHidden, kVocabulary } from "../test/fakes.ts";

const f16Manifest = parseManifest((await fakePackage(4, 8)).json);
const kMiddle = { first: 1, end: 3 };
const kLast = { first: 2, end: 4 };
const kNoSampling = new SamplingTable();
const kNoTimes = { queueUs: 0, computeUs: 0 };

function manifest(boundaryDtype: DType = DType.f16): Manifest {
  return { ...f16Manifest, boundaryDtype };
}

function frame(dtype: DType, columns: number, payload: Uint8Array, runs: Partial<FrameRun>[]):
Frame {
  const whole = runs.map((run, index) => ({
    session: index + 1, generation: 0, firstPosition: 0, count: 1, output: OutputKind.hidden,
    candidateCount: 0, ...run,
  }));
  const header = {
    type: FrameType.step, sequence: 5, binding: 1, stage: 1,
    rows: whole.reduce((sum, { count }) => sum + count, 0), columns, dtype, queueUs: 0,
    computeUs: 0,
  };
  // The frame as it comes: a view into a message at an odd place.
  const message = encodeFrame(header, whole, payload);
  const shifted = new Uint8Array(message.length + 1);
  shifted.set(message, 1);
  return decodeFrame(shifted.subarray(1));
}

function halves(...bits: number[]): Uint8Array {
  return new Uint8Array(new Uint16Array(bits).buffer);
}

const output = (values: number[], more: Partial<StepOutput> = {}): StepOutput =>
  ({ hidden: Float32Array.from(values), selections: [], logits: new Float32Array(0), ...more });

describe("rows that the engine packs itself", () => {
  it("hands the bytes on as they came, and sends those that the engine gave", () => {
    const bits = [0x3c00, 0xc000, 0x0001, 0x7bff];
    const came = frame(DType.f16, kHidden, halves(...bits), [{}]);
    const input = decodeStep(came, manifest(), kMiddle, kNoSampling, "f16");
    expect(input.hidden).toHaveLength(0);
    expect(input.packOutput).toBe(true);
    expect([...input.packed!]).toEqual([...halves(...bits)]);
    const packed = new Uint8Array(halves(...bits).slice());
    const message = encodeResult(came, manifest(), kMiddle, output([], { packed }), kNoTimes);
    expect([...decodeFrame(message).payload]).toEqual([...packed]);
  });

  it("converts what comes in another type than the engine's", () => {
    const bytes = new Uint8Array(Float32Array.of(1, -2, 2 ** -24, 65504).buffer);
    const f32Frame = frame(DType.f32, kHidden, bytes, [{}]);
    const input = decodeStep(f32Frame, manifest(), kMiddle, kNoSampling, "f16");
    expect([...input.hidden]).toEqual([1, -2, 2 ** -24, 65504]);
    expect(input.packed).toBe(undefined);
  });
});

describe("what comes in", () => {
  it.each<[string, DType, Uint8Array]>([
    ["f16", DType.f16, halves(0x3c00, 0xc000, 0x0001, 0x7bff)],
    ["f32", DType.f32, new Uint8Array(Float32Array.of(1, -2, 2 ** -24, 65504).buffer)],
  ])("residual rows as %s", (_, dtype, payload) => {
    const input = decodeStep(frame(dtype, kHidden, payload, [{}]), manifest(), kMiddle,
      kNoSampling);
    expect([...input.hidden]).toEqual([1, -2, 2 ** -24, 65504]);
    expect(input.tokenIds).toHaveLength(0);
    expect(input.runs).toEqual([
      { session: 1, generation: 0, firstPosition: 0, count: 1, output: { kind: "hidden" } },
    ]);
  });

  it("marks", () => {
    const step = frame(DType.f16, kHidden, halves(1, 2, 3, 4), [{ marks: 3 }]);
    expect(decodeStep(step, manifest(), kMiddle, kNoSampling).runs[0]).toMatchObject({ marks: 3 });
  });

  it("residual rows as bf16", () => {
    const payload = halves(0x3f80, 0xc000, 0x7f7f, 0);
    const input = decodeStep(frame(DType.bf16, kHidden, payload, [{}]), manifest(DType.bf16),
      kMiddle, kNoSampling);
    expect([...input.hidden.subarray(0, 2)]).toEqual([1, -2]);
    expect(input.hidden[2]).toBeGreaterThan(3e38);
  });

  it.each<[string, Frame, { first: number; end: number }, string]>([
    ["tokens for a middle stage", frame(DType.i32, 1, new Uint8Array(4), [{}]), kMiddle,
      "Residual rows come as f16 or f32, not i32."],
    ["bf16 for a model of f16", frame(DType.bf16, kHidden, new Uint8Array(8), [{}]), kMiddle,
      "Residual rows come as f16 or f32, not bf16."],
    ["rows of another model", frame(DType.f16, 6, new Uint8Array(12), [{}]), kMiddle,
      "Residual rows have 6 columns; the model has 4."],
    ["residual rows for the first stage", frame(DType.f16, kHidden, new Uint8Array(8), [{}]),
      { first: 0, end: 2 }, "The first stage takes token ids (i32, 1 column), not f16 with 4"],
    ["a negative token", frame(DType.i32, 1, new Uint8Array(4).fill(255), [{}]),
      { first: 0, end: 2 }, "Token id -1 is outside the vocabulary of 16."],
    ["residual rows from the last stage", frame(DType.f16, kHidden, new Uint8Array(8), [{}]),
      kLast, "Session 1 asks for output kind 1: the last stage gives tokens or logits"],
    ["logits from a middle stage",
      frame(DType.f16, kHidden, new Uint8Array(8), [{ output: OutputKind.logits }]), kMiddle,
      "only the last stage gives tokens or logits."],
  ])("refuses %s", (_, refused, layers, words) => {
    expect(() => decodeStep(refused, manifest(), layers, kNoSampling)).toThrow(words);
  });
});

describe("what goes out", () => {
  const step = frame(DType.f16, kHidden, new Uint8Array(16), [{}, {}]);

  it("residual rows in the wire's type, with the step's number and times", () => {
    const values = [1, -2, 2 ** -24, 65504, 0, 0.5, 2, 4];
    const times = { queueUs: 1234, computeUs: 5678 };
    const { header, payload } = decodeFrame(
      encodeResult(step, manifest(), kMiddle, output(values), times));
    expect(header).toMatchObject({
      type: FrameType.result, sequence: 5, binding: 1, stage: 1, rows: 2, columns: 4,
      dtype: DType.f16, queueUs: 1200, computeUs: 5678,
    });
    expect([...new Uint16Array(payload.slice().buffer)])
      .toEqual([0x3c00, 0xc000, 1, 0x7bff, 0, 0x3800, 0x4000, 0x4400]);
  });

  it.each([[NaN, DType.f16, "f16"], [-Infinity, DType.f32, "f32"], [65536, DType.f16, "f16"],
    [Infinity, DType.bf16, "bf16"]])("refuses %d as %s", (value, dtype, name) => {
    const values = [value, 1, 1, 1, 1, 1, 1, value];
    expect(() => encodeResult(step, manifest(dtype), kMiddle, output(values), kNoTimes))
      .toThrow(`2 values of the residual stream after layer 2 are not finite in ${name}.`);
  });

  it("tokens, candidates and logits, run after run", () => {
    const runs = [
      { output: OutputKind.argmax }, { output: OutputKind.none },
      { output: OutputKind.candidates, candidateCount: 2 }, { output: OutputKind.logits },
      { output: OutputKind.draw, candidateCount: 2 },
    ];
    const mixed = frame(DType.f16, kHidden, new Uint8Array(40), runs);
    const candidates = [{ tokenId: 7, logit: 3 }, { tokenId: 2, logit: 1.5 }];
    const logits = Float32Array.from({ length: kVocabulary }, (_, i) => i / 2);
    const selections = [
      { candidates, logsumexp: 4 }, { candidates, logsumexp: 4.5, scaledSum: 1.25 },
      { candidates, logsumexp: 5, drawn: { tokenId: 9, logit: -1 } },
    ];
    const result = encodeResult(mixed, manifest(), kLast, output([], { selections, logits }),
      kNoTimes);
    const { header, payload } = decodeFrame(result);
    expect(header.columns).toBe(0);
    const view = new DataView(payload.slice().buffer);
    const argmax = [view.getUint32(0, true), view.getFloat32(4, true), view.getFloat32(8, true)];
    expect(argmax).toEqual([7, 3, 1.5]);
    const list = (at: number): number[] => [view.getUint32(at, true), view.getFloat32(at + 4, true),
      view.getUint32(at + 8, true), view.getFloat32(at + 12, true)];
    expect([view.getUint32(12, true), view.getFloat32(16, true), view.getFloat32(20, true)])
      .toEqual([2, 4.5, 1.25]);
    expect(list(24)).toEqual([7, 3, 2, 1.5]);
    expect(view.getFloat32(40 + 4 * 15, true)).toBe(7.5);
    const draw = 40 + 4 * kVocabulary;
    expect([view.getUint32(draw, true), view.getFloat32(draw + 4, true),
      view.getFloat32(draw + 8, true)]).toEqual([9, -1, 5]);
    expect(list(draw + 12)).toEqual([7, 3, 2, 1.5]);
    expect(payload).toHaveLength(draw + 28);
  });

  it("refuses an engine's answer of the wrong length", () => {
    expect(() => encodeResult(step, manifest(), kMiddle, output([1, 2, 3, 4]), kNoTimes))
      .toThrow("The engine gave 8 bytes for layers 1 to 2, expected 16.");
  });
});
