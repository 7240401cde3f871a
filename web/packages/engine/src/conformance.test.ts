// Every case of tests/conformance through the engine on whatever WebGPU device Node has: several
// rows together and one by one, which must give the same bits. Products of q4 and q8 weights also
// with their inputs as integers of 16 bits, the choice of experts also by a workgroup a row.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import type { ConformanceCase } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { runCase } from "./test/runCase.ts";
import type { WebGpuOptions } from "./webgpuEngine.ts";

const folder = join(import.meta.dirname, "../../../../tests/conformance");
const gpu = await sharedNodeGpu();

// penalize runs on the server, which samples.
const files = readdirSync(folder).filter(
  (name) => name.endsWith(".json") && name !== "penalize.json",
);

// An input is off by at most 2^-16 of the largest of its block of 32; the sum of many by less than
// this.
const kIntegerTolerance = 1e-3;
const hasProducts = (file: string): boolean => /^(matmul|moe_experts)/.test(file);

// As devices compute whose workgroups' threads run side by side.
const kSideBySide = { products: "f32", lanes: "shared", outputs: 8, tileRows: 2 } as const;

async function check(
  c: ConformanceCase,
  products: "f32" | "int16",
  more: Partial<WebGpuOptions> = {},
): Promise<void> {
  const tolerance = products === "f32" ? c.tolerance : Math.max(c.tolerance, kIntegerTolerance);
  const got = await runCase(gpu!, c, 1000, { products, ...more });
  const where = `${c.op} ${c.name}, ${products}`;
  // A vocabulary of one token has no runner-up.
  const isShort = c.op === "argmax" && got.length === 2;
  expect(got.length, where).toBe(isShort ? 2 : c.expected.length);
  for (const [i, value] of got.entries()) {
    const wanted = c.expected[i]!;
    const most = tolerance * Math.max(1, Math.abs(wanted));
    if (!(Math.abs(value - wanted) <= most)) {
      expect.fail(`${where}: element ${i} is ${value}, expected ${wanted}`);
    }
  }
  const alone = await runCase(gpu!, c, 1, { products, ...more });
  expect(alone, `${where}, row by row`).toEqual(got);
}

// Attention whose positions fill more than a chunk, with heads of few and of odd numbers of pairs:
// [columns of a head, positions, window]. From three chunks on, each is a workgroup's.
const kLongAttention = [
  [10, 530, 0, 2],
  [6, 300, 270, 2],
  [80, 530, 300, 2],
  [256, 300, 0, 2],
  [32, 530, 0, 64], // many workgroups: two heads each
] as const;

function longCase(
  columns: number,
  positions: number,
  window: number,
  heads: number,
): ConformanceCase {
  const kept = (heads: number, seed: number): ConformanceCase["inputs"][string] =>
    ({ kind: "f32", shape: [positions, heads * columns], seed });
  const kvHeads = heads / 2;
  const size = { heads, kv_heads: kvHeads, head_columns: columns };
  const params = { ...size, scale: 0.3, window, softcap: 0 };
  return {
    name: `${heads} heads of ${columns}, ${positions} positions`,
    op: "attention",
    params: { ...params, query_rows: positions },
    inputs: { q: kept(heads, 1), k: kept(kvHeads, 2), v: kept(kvHeads, 3) },
    tolerance: 0,
    expected: [],
  };
}

describe.skipIf(!gpu)("conformance on WebGPU", () => {
  it("attends to several chunks row by row as to all at once", { timeout: 900_000 }, async () => {
    for (const [columns, positions, window, heads] of kLongAttention) {
      const c = longCase(columns, positions, window, heads);
      for (const kvDtype of ["f16", "f32"] as const) {
        const got = await runCase(gpu!, c, 1000, { products: "f32", kvDtype });
        const alone = await runCase(gpu!, c, 1, { products: "f32", kvDtype });
        expect(alone, `${c.name}, ${kvDtype}`).toEqual(got);
      }
    }
  });
  for (const file of files) {
    const cases = JSON.parse(readFileSync(join(folder, file), "utf8")) as ConformanceCase[];
    it(`${file}: ${cases.length} cases`, { timeout: 900_000 }, async () => {
      for (const c of cases) await check(c, "f32");
    });
    if (file === "moe_route.json") {
      it(`${file}, a workgroup a row`, { timeout: 900_000 }, async () => {
        for (const c of cases) await check(c, "f32", { tuning: kSideBySide });
      });
    }
    if (!hasProducts(file)) continue;
    it.skipIf(!gpu?.hasIntegerDots)(`${file}, int16`, { timeout: 900_000 }, async () => {
      for (const c of cases) if (/q[48]/.test(c.name)) await check(c, "int16");
    });
  }
});
