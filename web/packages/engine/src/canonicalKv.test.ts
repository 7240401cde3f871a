// Keys and values in the canonical form, written down here by its definition (stageEngine.ts) and
// not by an engine: what the native engine exports and imports, value by value.
import { describe, expect, it } from "vitest";

import { f32ToF16 } from "./base/half.ts";
import type { StepOutput } from "./stage/stageEngine.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { ToyModel } from "./test/toyModel.ts";
import type { ToyLayer } from "./test/toyModel.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const kHeads = 2;
const kHeadColumns = 6;
const kColumns = kHeads * kHeadColumns;
const kPositions = 37; // more than a page
const only = { first: 1, end: 2 };

const view = (buffer: number, firstColumn = 0) => ({ buffer, firstColumn, columns: kColumns });

// Attention over q, k and v that come side by side; a layer's last operation is an addition.
const attention = {
  q: view(0),
  k: view(0, kColumns),
  v: view(0, 2 * kColumns),
  out: view(1),
  heads: kHeads,
  kvHeads: kHeads,
  headColumns: kHeadColumns,
  scale: 0.1,
};
const layer: ToyLayer = {
  buffers: [3 * kColumns, kColumns, kColumns, kColumns],
  weights: [],
  ops: [
    { kind: { case: "attention", value: attention } },
    { kind: { case: "scale", value: { in: view(1), out: view(2), factor: 0 } } },
    { kind: { case: "add", value: { a: view(1), b: view(2), out: view(3) } } },
  ],
  input: 0,
  output: 3,
};

// Exact in f16.
function valueAt(isValue: boolean, position: number, head: number, column: number): number {
  return (isValue ? -1 : 1) * (position + head / 4 + column / 32);
}

function rowsOf(first: number, count: number): Float32Array {
  const rows: number[] = [];
  for (let position = first; position < first + count; ++position) {
    for (let i = 0; i < kColumns; ++i) rows.push(Math.cos(i + position));
    for (const isValue of [false, true]) {
      for (let i = 0; i < kColumns; ++i) {
        const head = Math.floor(i / kHeadColumns);
        rows.push(valueAt(isValue, position, head, i % kHeadColumns));
      }
    }
  }
  return Float32Array.from(rows);
}

// [k|v][position][kv head][head column]
function canonical(): Uint16Array {
  const values: number[] = [];
  for (const isValue of [false, true]) {
    for (let position = 0; position < kPositions; ++position) {
      for (let head = 0; head < kHeads; ++head) {
        for (let column = 0; column < kHeadColumns; ++column) {
          values.push(valueAt(isValue, position, head, column));
        }
      }
    }
  }
  const bits = new Uint16Array(values.length);
  f32ToF16(Float32Array.from(values), bits);
  return bits;
}

function step(
  engine: WebGpuEngine,
  session: number,
  firstPosition: number,
  count: number,
): Promise<StepOutput> {
  const run = { session, generation: 0, firstPosition, count, output: { kind: "hidden" } as const };
  const hidden = rowsOf(firstPosition, count);
  return engine.step({ layers: only, runs: [run], tokenIds: new Int32Array(0), hidden });
}

describe.skipIf(!gpu)("canonical keys and values", { timeout: 600_000 }, () => {
  for (const kvDtype of ["f16", "f32"] as const) {
    it(`kept in ${kvDtype}: go out as defined, come in as if they had been computed`, async () => {
      const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, kvDtype });
      await engine.load(only, new ToyModel(new Map([[1, layer]])));
      await step(engine, 1, 0, kPositions);
      expect(await engine.exportKv(1, 1, 0, kPositions)).toEqual(canonical());
      await engine.importKv(2, 0, 1, 0, kPositions, canonical());
      const computed = await step(engine, 1, kPositions, 2);
      const imported = await step(engine, 2, kPositions, 2);
      expect(imported.hidden).toEqual(computed.hidden);
      expect(imported.hidden.some((value) => value !== 0)).toBe(true);
      engine.freeBuffers();
    });
  }
});
