// Every way of computing products that a device may choose gives the same bits as the others of its
// kind: conformance cases, and a model with norms, paired matrices and several rows.
//
// A GPU runs every case with every arithmetic. A software adapter takes a second to compile each
// kernel, so it gets what has a path of its own: of cases several rows with zero points, more lanes
// than one part has, and experts (conformance.test.ts has the others, in serial lanes); of outputs
// the three ways in which int16 kernels share a group's scales (lane_rows.wgsl),
// one with the cases and two with the model. f32 and f16 kernels have the same path for all.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import type { Arithmetic, LaneKind, ProductKind } from "./kernels/product/arithmetic.ts";
import type { ConformanceCase } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { RandomModel } from "./test/randomModel.ts";
import { runCase } from "./test/runCase.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const folder = join(import.meta.dirname, "../../../../tests/conformance");
const gpu = await sharedNodeGpu();

function casesOf(op: string, names: readonly string[] | null): ConformanceCase[] {
  const all = JSON.parse(readFileSync(join(folder, `${op}.json`), "utf8")) as ConformanceCase[];
  return all.filter(({ name }) => names === null || names.includes(name));
}

const isEvery = gpu?.isHardware === true;
const cases = isEvery
  ? [...casesOf("matmul", null), ...casesOf("moe_experts", null)]
  : [...casesOf("matmul", ["q4_zero_9x160x5", "q8_1x4096x2"]), ...casesOf("moe_experts", ["q4"])];
const kTolerance = { f32: 0, int16: 1e-3, f16: 1e-2 } as const;

const kEveryOutputs = [8, 16, 32];
const caseOutputs = isEvery ? kEveryOutputs : [16];
const modelOutputs = (products: ProductKind): number[] =>
  isEvery ? kEveryOutputs : products === "int16" ? [8, 32] : [32];

function candidates(products: ProductKind, outputCounts: readonly number[]): Arithmetic[] {
  const lanes: LaneKind[] = gpu?.hasSubgroups ? ["subgroups", "shared"] : ["shared"];
  const serial: Arithmetic = { products, lanes: "serial", outputs: 16, tileRows: 4 };
  const others = lanes.flatMap((kind) =>
    outputCounts.map((outputs) => ({ products, lanes: kind, outputs, tileRows: outputs / 4 })),
  );
  return [serial, ...others];
}

async function check(c: ConformanceCase, products: ProductKind): Promise<void> {
  const [first, ...others] = candidates(products, caseOutputs) as [Arithmetic, ...Arithmetic[]];
  const expected = await runCase(gpu!, c, 1000, { tuning: first });
  const tolerance = Math.max(c.tolerance, kTolerance[products]);
  for (const [i, value] of expected.entries()) {
    const wanted = c.expected[i]!;
    if (Math.abs(value - wanted) <= tolerance * Math.max(1, Math.abs(wanted))) continue;
    expect.fail(`${c.op} ${c.name}, ${products}: element ${i} is ${value}, expected ${wanted}`);
  }
  for (const tuning of others) {
    for (const rows of [1000, 1]) {
      const where = `${c.op} ${c.name}, ${JSON.stringify(tuning)}, ${rows} rows`;
      expect(await runCase(gpu!, c, rows, { tuning }), where).toEqual(expected);
    }
  }
}

const kShape = {
  layers: 1,
  hidden: 160,
  width: 72,
  heads: 2,
  kvHeads: 1,
  headColumns: 16,
  vocabulary: 41,
};

const kSteps = [5, 1, 26]; // rows: a tile and a rest, one, a matrix product
// The logits of all rows.
async function logitsOf(tuning: Arithmetic): Promise<number[]> {
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, tuning });
  const model = new RandomModel(kShape);
  await engine.load(model.range, model);
  const values: number[] = [];
  let firstPosition = 0;
  for (const count of kSteps) {
    const output = { kind: "logits" } as const;
    const run = { session: 1, generation: 0, firstPosition, count, output };
    const first = firstPosition;
    const tokenIds = Int32Array.from({ length: count }, (_, i) => first + i);
    const hidden = new Float32Array(0);
    const { logits } = await engine.step({ layers: model.range, runs: [run], tokenIds, hidden });
    values.push(...logits);
    firstPosition += count;
  }
  engine.freeBuffers();
  return values;
}

describe.skipIf(!gpu)("every arithmetic", { timeout: 900_000 }, () => {
  const kinds = [
    { products: "f32", isThere: true },
    { products: "int16", isThere: gpu?.hasIntegerDots },
    { products: "f16", isThere: gpu?.hasF16 }, // needs shader-f16
  ] as const;
  for (const { products, isThere } of kinds) {
    it.skipIf(!isThere)(`of cases has the same bits in ${products}`, async () => {
      for (const c of cases) await check(c, products);
    });

    it.skipIf(!isThere)(`of a model has the same bits in ${products}`, async () => {
      const ways = candidates(products, modelOutputs(products));
      const [first, ...others] = ways as [Arithmetic, ...Arithmetic[]];
      const expected = await logitsOf(first);
      expect(expected.length).toBe(32 * kShape.vocabulary);
      for (const tuning of others) {
        expect(await logitsOf(tuning), JSON.stringify(tuning)).toEqual(expected);
      }
    });
  }
});
