// Products of superblocks against the rule of their form, written out one value after another: one
// row, a tile of a few and a tile of many, whose bits are the same.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { DType, isKQuant } from "./program/ir.ts";
import { floatsOf, kQuantRow, superblockRow, weightOf } from "./test/caseInputs.ts";
import type { CaseInput, ConformanceCase, WeightArrays } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { RandomModel } from "./test/randomModel.ts";
import type { ModelShape } from "./test/randomModel.ts";
import { runCase } from "./test/runCase.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();

// Threads of a workgroup side by side, and one that walks all of a product by itself.
const kSideBySide = {
  tuning: { products: "f32", lanes: "shared", outputs: 16, tileRows: 4 },
} as const;
const kSerial = { tuning: { ...kSideBySide.tuning, lanes: "serial" } } as const;

function caseOf(
  kind: string,
  rows: number,
  columns: number,
  outputs: number,
  amplitude = 1,
): ConformanceCase {
  return {
    name: `${kind}_${rows}x${columns}x${outputs}`,
    op: "matmul",
    params: {},
    inputs: {
      in: { kind: "f32", shape: [rows, columns], seed: 11 + rows, amplitude },
      weight: { kind, shape: [outputs, columns], seed: 23 + columns },
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

interface Superblock {
  readonly integers: readonly number[];
  readonly scale: number; // s
}

// A row as docs/decisions/0026 has it.
function superblocksOfRow(row: Float32Array, isFused: boolean): Superblock[] {
  return Array.from({ length: Math.ceil(row.length / 256) }, (_, b) => {
    const part = row.subarray(256 * b, 256 * (b + 1));
    const e = exponentOf(part.reduce((most, x) => Math.max(most, Math.abs(x)), 0));
    const factor = 2 ** (141 - e) * (32639 / 32768);
    const integers = [...part].map((x) => integerOf(x, factor, isFused));
    return { integers, scale: Math.fround(2 ** (e - 141) * Math.fround(1.003952326971)) };
  });
}

const { fround } = Math;

// fma of f32, but for ties of its one rounding.
function fma(a: number, b: number, y: number): number {
  return fround(fround(a) * fround(b) + y);
}

type ProductOf = (row: readonly Superblock[]) => number;

// y = fma over superblocks rising: (f32(T), S * s, y).
function q4sProduct(arrays: WeightArrays, n: number): ProductOf {
  const { values, scales } = superblockRow(arrays, n);
  return (row) => {
    let y = 0;
    for (const [b, { integers, scale }] of row.entries()) {
      const total = integers.reduce((sum, x, k) => sum + x * values[256 * b + k]!, 0);
      y = fma(total, scales[b]! * scale, y);
    }
    return y;
  };
}

// The rule of rule_kquants.wgsl.
function kQuantProduct(arrays: WeightArrays, n: number): ProductOf {
  const { weights, minima, factors } = kQuantRow(arrays, n);
  return (row) => {
    let y = 0;
    for (const [b, { integers, scale }] of row.entries()) {
      let [high, low, least] = [0, 0, 0];
      for (const [k, x] of integers.entries()) {
        const top = (x + 128) >> 8;
        high += top * weights[256 * b + k]!;
        low += (x - 256 * top) * weights[256 * b + k]!;
        least += x * minima[256 * b + k]!;
      }
      const both = fround(factors[2 * b]! * scale);
      y = fma(low, both, fma(high, 256 * both, y));
      if (arrays.dtype !== DType.q6k) y = fma(-least, factors[2 * b + 1]! * scale, y);
    }
    return y;
  };
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
  const productOf = isKQuant(arrays.dtype) ? kQuantProduct : q4sProduct;
  const products = Array.from({ length: outputs }, (_, n) => productOf(arrays, n));
  const offBy = (isFused: boolean): number => {
    let most = 0;
    for (let row = 0; row < rows; ++row) {
      const own = superblocksOfRow(floats.subarray(row * columns, (row + 1) * columns), isFused);
      for (const [n, product] of products.entries()) {
        const wanted = product(own);
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

// The same case with whole superblocks: 256 columns in, and 256 in between.
function widened(c: ConformanceCase): ConformanceCase {
  const [, hidden, width] = c.inputs["down"]!.shape as [number, number, number];
  const rows = c.inputs["gate_up"]!.shape[1]!;
  const sizes = new Map([[hidden, 256], [width, 256], [rows, (256 * rows) / width]]);
  const inputs = Object.entries(c.inputs).map(([name, input]): [string, CaseInput] => {
    const [first, ...rest] = input.shape as [number, ...number[]];
    if (name === "logits") return [name, input];
    return [name, { ...input, shape: [first, ...rest.map((size) => sizes.get(size)!)] }];
  });
  return { ...c, inputs: Object.fromEntries(inputs) };
}

async function checkExperts(c: ConformanceCase, form: string): Promise<void> {
  const own = withWeights(c, form);
  const got = await runCase(gpu!, own, 1000, kSideBySide);
  const wanted = await runCase(gpu!, withWeights(c, `${form}_as_f32`), 1000, { products: "f32" });
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
async function logitsOf(
  shape: ModelShape,
  dtype: number,
  steps: readonly number[],
): Promise<number[]> {
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, ...kSideBySide });
  const model = new RandomModel(shape, dtype);
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

// Rows of k-quants are whole superblocks.
const kWideShape = { ...kShape, hidden: 512, width: 256, heads: 16 };

const kForms = [
  { form: "q4s", dtype: DType.q4s, shape: kShape },
  { form: "q4k", dtype: DType.q4k, shape: kWideShape },
  { form: "q5k", dtype: DType.q5k, shape: kWideShape },
  { form: "q6k", dtype: DType.q6k, shape: kWideShape },
];

const kTimeout = { timeout: 600_000 };
describe.skipIf(!gpu?.hasIntegerDots).each(kForms)("products of $form", kTimeout, (of) => {
  const { form, dtype, shape } = of;
  const columnsOf = (columns: number): number =>
    isKQuant(dtype) ? 256 * Math.ceil(columns / 256) : columns;
  const shapes: [number, number, number][] = [
    [1, 40, 9],
    [5, 300, 24],
    [40, 1120, 70],
    [2, 4352, 8],
  ];
  for (const [rows, least, outputs] of shapes) {
    const columns = columnsOf(least);
    it(`of ${rows} rows of ${columns} columns and ${outputs} outputs`, async () => {
      await check(caseOf(form, rows, columns, outputs));
    });
  }

  // Tables are k-quants, never q4s. A value is rounded once on either side. Adding 0 lets both
  // zeros be one.
  if (isKQuant(dtype)) {
    it("and rows that are looked up, bit for bit", async () => {
      const rowsOf = (kind: string): ConformanceCase => ({
        name: `rows of ${kind}`,
        op: "embed",
        params: { scale: 1 },
        inputs: {
          table: { kind, shape: [21, 768], seed: 31 },
          token_ids: { kind: "i32", shape: [16], seed: 5, bound: 21 },
        },
        tolerance: 0,
        expected: [],
      });
      const rows = await runCase(gpu!, rowsOf(form), 1000, kSideBySide);
      expect(rows.length).toBe(16 * 768);
      expect(new Set(rows).size).toBeGreaterThan(1000);
      const wanted = await runCase(gpu!, rowsOf(`${form}_as_f32`), 1000, kSideBySide);
      expect(rows.map((x) => x + 0)).toEqual(wanted.map((x) => x + 0));
    });
  }

  it("of experts", async () => {
    const text = readFileSync(join(folder, "moe_experts.json"), "utf8");
    const kinds = ["q4", "biased_swiglu_oai", "every_expert", "without_gate_q4"];
    const cases = JSON.parse(text) as ConformanceCase[];
    const chosen = cases.filter(({ name }) => kinds.includes(name));
    expect(chosen.length).toBe(kinds.length);
    const fitting = isKQuant(dtype) ? chosen.map(widened) : chosen;
    for (const c of fitting) await checkExperts(c, form);
  });

  it("of a model: norms, gate and up, several products of one input", async () => {
    const together = await logitsOf(shape, dtype, [3, 1, 33]);
    expect(together.length).toBe(37 * shape.vocabulary);
    expect(together.every((x) => Number.isFinite(x))).toBe(true);
    expect(await logitsOf(shape, dtype, Array.from({ length: 37 }, () => 1))).toEqual(together);
  });

  it("of tiny and of large inputs", async () => {
    await check(caseOf(form, 2, columnsOf(300), 9, 1e-30));
    await check(caseOf(form, 2, columnsOf(300), 9, 1e30));
  });
});
