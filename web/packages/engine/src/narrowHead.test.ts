// The head of a model that makes embeddings: a norm alone, which gives every row or the last one of
// a run, more of them at a time than the head of a vocabulary takes.
import { describe, expect, it } from "vitest";

import { headPassRows, kHeadRows, kMaxRows } from "./dispatch/layout.ts";
import { decodeProgram } from "./program/decode.ts";
import type { Output, Run } from "./stage/stageEngine.ts";
import { weightOf } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { ToyModel } from "./test/toyModel.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const kColumns = 33;
const kEpsilon = 1e-5;
const only = { first: 1, end: 2 };
const kLogits: Output = { kind: "logits" };

const weight = weightOf({ kind: "f32", shape: [kColumns], seed: 5 });
const factors = new Float32Array(weight.data.slice().buffer);
const view = (buffer: number) => ({ buffer, firstColumn: 0, columns: kColumns });
const norm = { in: view(0), out: view(1), weight: 0, epsilon: kEpsilon };
const model = new ToyModel(
  new Map([
    [
      1,
      {
        buffers: [kColumns, kColumns],
        weights: [weight],
        ops: [{ kind: { case: "rmsNorm", value: norm } }],
        input: 0,
        output: 1,
      },
    ],
  ]),
);

const hidden = (rows: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: rows * kColumns }, (_, i) => Math.sin(i * 0.7) * 3);

function normed(rows: Float32Array): number[] {
  const out: number[] = [];
  for (let at = 0; at < rows.length; at += kColumns) {
    const row = rows.subarray(at, at + kColumns);
    const mean = row.reduce((sum, x) => sum + x * x, 0) / kColumns;
    row.forEach((x, i) => out.push((x / Math.sqrt(mean + kEpsilon)) * factors[i]!));
  }
  return out;
}

const run = (session: number, count: number, output: Output): Run => ({
  session, generation: 0, firstPosition: 0, count, output,
});

describe.skipIf(!gpu)("a head that is a norm", { timeout: 600_000 }, () => {
  it("gives all rows, of passes and of runs, in their order", async () => {
    const engine = new WebGpuEngine(gpu!, kDefaultOptions);
    await engine.load(only, model);
    expect(headPassRows(decodeProgram(model.programBytes(1)))).toBeGreaterThan(kHeadRows);
    const counts = [3, kMaxRows + 22, 1];
    const rows = hidden(counts.reduce((sum, count) => sum + count, 0));
    const { logits } = await engine.step({
      layers: only,
      runs: counts.map((count, i) => run(i + 1, count, kLogits)),
      tokenIds: new Int32Array(0),
      hidden: rows,
    });
    const expected = normed(rows);
    expect(logits.length).toBe(expected.length);
    const far = Math.max(...logits.map((x, i) => Math.abs(x - expected[i]!)));
    expect(far).toBeLessThan(1e-5);
    engine.freeBuffers();
  });

  it("gives the last row beside a run of which nothing is wanted", async () => {
    const engine = new WebGpuEngine(gpu!, kDefaultOptions);
    await engine.load(only, model);
    const rows = hidden(12);
    const { logits } = await engine.step({
      layers: only,
      runs: [run(1, 11, { kind: "none" }), run(2, 1, kLogits)],
      tokenIds: new Int32Array(0),
      hidden: rows,
    });
    const expected = normed(rows.subarray(11 * kColumns));
    logits.forEach((x, i) => expect(x).toBeCloseTo(expected[i]!, 5));
    expect(logits.length).toBe(kColumns);
    engine.freeBuffers();
  });
});
