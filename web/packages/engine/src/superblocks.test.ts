// Products of superblocks (q4s) against the rule, written out one value after another: one row, a
// tile of a few and a tile of many, whose bits are the same.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { DType } from "./program/ir.ts";
import { floatsOf, superblockRow, weightOf } from "./test/caseInputs.ts";
import type { CaseInput, ConformanceCase } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { RandomModel } from "./test/randomModel.ts";
import { runCase } from "./test/runCase.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();

// Threads of a workgroup side by side, and one that walks all of a product by itself.
const kSideBySide = {
  tuning: { products: "f32", lanes: "shared", outputs: 16, tileRows: 4 },
} as const;
const kSerial = { tuning: { ...kSideBySide.tuning, lanes: "serial" } } as const;

function caseOf(
  rows: number,
  columns: number,
  outputs: number,
  amplitude = 1,
): ConformanceCase {
  return {
    name: `q4s_${rows}x${columns}x${outputs}`,
    op: "matmul",
    params: {},
    inputs: {
      in: { kind: "f32", shape: [rows, columns], seed: 11 + rows, amplitude },
      weight: { kind: "q4s", shape: [outputs, columns], seed: 23 + columns },
    },
    tolerance: 0,
    expected: [],
  };
}

function exponentOf(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  return Math.min(Math.max((bits >>> 23) & 255, 40), 254);
}

const kMagic = 12583040; // 1.5 * 2^23 + 128: the sum's unit in the last place is 1

// x * factor as a whole number, ties to even. An adapter may take fma apart, into two roundings.
function integerOf(x: number, factor: number, isFused: boolean): number {
  const product = x * factor;
  if (!isFused) return Math.fround(Math.fround(product) + kMagic) - kMagic;
  const down = Math.floor(product);
  if (product - down !== 0.5) return Math.round(product);
  return down % 2 === 0 ? down : down + 1;
}

// y = fma over superblocks rising: (f32(T), S * s, y), as docs/decisions/0026 has it.
function productOf(
  row: Float32Array,
  values: Int8Array,
  scales: Float32Array,
  isFused: boolean,
): number {
  let y = 0;
  for (const [b, scale] of scales.entries()) {
    const part = row.subarray(256 * b, 256 * (b + 1));
    const e = exponentOf(part.reduce((most, x) => Math.max(most, Math.abs(x)), 0));
    const factor = 2 ** (141 - e) * (32639 / 32768);
    let total = 0;
    for (const [k, x] of part.entries()) {
      total += integerOf(x, factor, isFused) * values[256 * b + k]!;
    }
    const inputScale = Math.fround(2 ** (e - 141) * Math.fround(1.003952326971));
    y = Math.fround(y + Math.fround(total) * Math.fround(scale * inputScale));
  }
  return y;
}

async function check(c: ConformanceCase): Promise<void> {
  const { in: input, weight } = c.inputs;
  const [rows, columns] = input!.shape as [number, number];
  const floats = floatsOf(input!);
  const arrays = weightOf(weight!);
  const outputs = weight!.shape[0]!;
  const amplitude = input!.amplitude!;
  const together = await runCase(gpu!, c, 1000, kSideBySide);
  expect(together.length).toBe(rows * outputs);
  const offBy = (isFused: boolean): number => {
    let most = 0;
    for (let n = 0; n < outputs; ++n) {
      const { values, scales } = superblockRow(arrays, n);
      for (let row = 0; row < rows; ++row) {
        const own = floats.subarray(row * columns, (row + 1) * columns);
        const wanted = productOf(own, values, scales, isFused);
        const error = Math.abs(together[row * outputs + n]! - wanted);
        most = Math.max(most, error / Math.max(Math.abs(wanted), amplitude));
      }
    }
    return most;
  };
  expect(Math.min(offBy(true), offBy(false)), c.name).toBeLessThan(1e-6);
  if (rows > 1) {
    expect(await runCase(gpu!, c, 1, kSideBySide), `${c.name}, row by row`).toEqual(together);
  }
  expect(await runCase(gpu!, c, 1000, kSerial), `${c.name}, serial`).toEqual(together);
}

// Cases of the conformance suite with weights of this form, against the same weights in f32. An
// input is off by at most 2^-16 of the largest of its superblock.
const folder = join(import.meta.dirname, "../../../../tests/conformance");
const kTolerance = 1e-3;

function withWeights(c: ConformanceCase, kind: string): ConformanceCase {
  const inputs = Object.entries(c.inputs).map(([name, input]): [string, CaseInput] =>
    name === "gate_up" || name === "down"
      ? [name, { ...input, kind, zero: false }]
      : [name, input]);
  return { ...c, inputs: Object.fromEntries(inputs) };
}

async function checkExperts(c: ConformanceCase): Promise<void> {
  const own = withWeights(c, "q4s");
  const got = await runCase(gpu!, own, 1000, kSideBySide);
  const wanted = await runCase(gpu!, withWeights(c, "q4s_as_f32"), 1000, { products: "f32" });
  const largest = wanted.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  for (const [i, value] of wanted.entries()) {
    expect(Math.abs(got[i]! - value), `${c.name}: element ${i}`).toBeLessThan(
      kTolerance * largest,
    );
  }
  expect(await runCase(gpu!, own, 1, kSerial), `${c.name}, row by row`).toEqual(got);
}

const kShape = {
  layers: 1,
  hidden: 320,
  width: 352,
  heads: 2,
  kvHeads: 1,
  headColumns: 16,
  vocabulary: 41,
};

// The logits of all rows, in steps of so many.
async function logitsOf(steps: readonly number[]): Promise<number[]> {
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, ...kSideBySide });
  const model = new RandomModel(kShape, DType.q4s);
  await engine.load(model.range, model);
  const values: number[] = [];
  let firstPosition = 0;
  for (const count of steps) {
    const output = { kind: "logits" } as const;
    const run = { session: 1, generation: 0, firstPosition, count, output };
    const first = firstPosition;
    const tokenIds = Int32Array.from({ length: count }, (_, i) => (7 * (first + i)) % 41);
    const hidden = new Float32Array(0);
    const { logits } = await engine.step({ layers: model.range, runs: [run], tokenIds, hidden });
    values.push(...logits);
    firstPosition += count;
  }
  engine.freeBuffers();
  return values;
}

describe.skipIf(!gpu?.hasIntegerDots)("products of superblocks", { timeout: 600_000 }, () => {
  const shapes: [number, number, number][] = [
    [1, 40, 9],
    [5, 300, 24],
    [3, 1120, 40],
    [40, 1120, 70],
    [2, 4352, 8],
  ];
  for (const [rows, columns, outputs] of shapes) {
    it(`of ${rows} rows of ${columns} columns and ${outputs} outputs`, async () => {
      await check(caseOf(rows, columns, outputs));
    });
  }

  it("of experts", async () => {
    const text = readFileSync(join(folder, "moe_experts.json"), "utf8");
    const kinds = ["q4", "biased_swiglu_oai", "every_expert", "without_gate_q4"];
    const cases = JSON.parse(text) as ConformanceCase[];
    const chosen = cases.filter(({ name }) => kinds.includes(name));
    expect(chosen.length).toBe(kinds.length);
    for (const c of chosen) await checkExperts(c);
  });

  it("of a model: norms, gate and up, several products of one input", async () => {
    const together = await logitsOf([3, 1, 33]);
    expect(together.length).toBe(37 * kShape.vocabulary);
    expect(together.every((x) => Number.isFinite(x))).toBe(true);
    expect(await logitsOf(Array.from({ length: 37 }, () => 1))).toEqual(together);
  });

  it("of tiny and of large inputs", async () => {
    await check(caseOf(2, 300, 9, 1e-30));
    await check(caseOf(2, 300, 9, 1e30));
  });
});
