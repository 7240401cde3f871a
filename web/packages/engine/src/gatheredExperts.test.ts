// Experts of many rows, whose rows lie together in tiles of an expert (moe_order.wgsl), against the
// same rows one step each, where every pair of row and expert is for itself: the bits are the same.
import { describe, expect, it } from "vitest";

import type { Gpu } from "./gpu/open.ts";
import { mostTiles } from "./kernels/experts/experts.ts";
import { gatheredTiles } from "./kernels/product/variants.ts";
import { DType } from "./program/ir.ts";
import { weightOf } from "./test/caseInputs.ts";
import type { ConformanceCase } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { runCase } from "./test/runCase.ts";

const gpu = await sharedNodeGpu();

interface Shape {
  readonly kind: string; // of the weights
  readonly rows: number;
  readonly hasGate?: boolean;
  readonly isBiased?: boolean;
  readonly gridStep?: number; // of outputs
}

const kExperts = 5;
const kTopK = 2;

function gridOf(step: number | undefined): { grid_step?: number; grid_limit?: number } {
  return step === undefined ? {} : { grid_step: step, grid_limit: 2 ** 20 };
}

function caseOf(of: Shape): ConformanceCase {
  const { kind, rows, hasGate = true, isBiased = false, gridStep } = of;
  const isWide = !["f32", "q4", "q8", "q4s"].includes(kind); // k-quants have whole superblocks
  const columns = isWide ? 256 : 40;
  const width = isWide ? 256 : 72;
  const upRows = (hasGate ? 2 : 1) * width;
  const biases = {
    gate_up_bias: { kind: "f32", shape: [kExperts, upRows], seed: 5 },
    down_bias: { kind: "f32", shape: [kExperts, columns], seed: 6 },
  };
  return {
    name: `${kind}, ${rows} rows`,
    op: "moe_experts",
    params: { top_k: kTopK, kind: hasGate ? "silu" : "relu", ...gridOf(gridStep) },
    inputs: {
      in: { kind: "f32", shape: [rows, columns], seed: 1 },
      logits: { kind: "f32", shape: [rows, kExperts], seed: 2, amplitude: 3 },
      gate_up: { kind, shape: [kExperts, upRows, columns], seed: 3 },
      down: { kind, shape: [kExperts, columns, width], seed: 4 },
      ...(isBiased ? biases : {}),
    },
    tolerance: 0,
    expected: Array.from({ length: rows * columns }, () => 0),
  };
}

const kOptions = {
  tuning: { products: "int16", lanes: "shared", outputs: 16, tileRows: 4 },
} as const;

describe.skipIf(!gpu)("experts of many rows", { timeout: 600_000 }, () => {
  const shapes: Shape[] = [
    { kind: "q4", rows: 11 }, // tiles of 16
    { kind: "q4", rows: 100, isBiased: true }, // several tiles of 32 an expert
    { kind: "q4s", rows: 11, isBiased: true },
    { kind: "q4s", rows: 100, hasGate: false, isBiased: true },
    { kind: "q6k", rows: 100 },
    { kind: "q4", rows: 100, gridStep: 2 ** -8 },
    { kind: "q4s", rows: 11, gridStep: 2 ** -8 },
  ];
  for (const shape of shapes) {
    const c = caseOf(shape);
    it(`have the bits of one row: ${JSON.stringify(shape)}`, async () => {
      const { dtype } = weightOf(c.inputs["down"]!);
      const tiles = gatheredTiles({ dtype, arithmetic: kOptions.tuning });
      expect(tiles[0]!.from).toBeLessThan((shape.rows * kTopK) / kExperts);
      const together = await runCase(gpu!, c, 1000, kOptions);
      expect(together.length).toBe(c.expected.length);
      expect(together.some((x) => x !== 0)).toBe(true);
      expect(together.every((x) => Number.isFinite(x))).toBe(true);
      expect(await runCase(gpu!, c, 1, kOptions)).toEqual(together);
    });
  }

  it("have them where each binding has some of the experts, or a part of one", async () => {
    const c = caseOf({ kind: "q4", rows: 60, isBiased: true });
    const whole = await runCase(gpu!, c, 1, kOptions);
    const { shape } = weightOf(c.inputs["gate_up"]!);
    const ofExpert = (shape[1]! / 8) * 8 * 32; // bytes of 40 columns, padded to 64, in q4
    for (const bindingBytes of [2 * ofExpert, ofExpert, ofExpert / 3]) {
      const limited: Gpu = { ...gpu!, limits: { ...gpu!.limits, bindingBytes } };
      const got = await runCase(limited, c, 1000, kOptions);
      const error = got.reduce((most, x, i) => Math.max(most, Math.abs(x - whole[i]!)), 0);
      expect(error, `${bindingBytes} bytes`).toBeLessThan(1e-5);
      expect(await runCase(limited, c, 1, kOptions)).toEqual(got);
    }
  });
});

describe("tiles of experts", () => {
  it("are as many as the worst division of pairs makes", () => {
    expect(mostTiles(8, 4, 16)).toBe(4); // 5 1 1 1
    expect(mostTiles(3, 128, 16)).toBe(3); // one each
    expect(mostTiles(100, 2, 32)).toBe(5); // 33 and 67
    expect(mostTiles(4096, 256, 64)).toBe(316);
  });

  it("begin with few rows an expert, and grow", () => {
    for (const dtype of [DType.q4, DType.q4s, DType.q6k]) {
      for (const units of [false, true]) {
        const tuning = { lanes: "subgroups", outputs: 32, tileRows: 4, units } as const;
        const tiles = gatheredTiles({ dtype, arithmetic: { products: "int16", ...tuning } });
        expect(tiles.length).toBeGreaterThan(1);
        const froms = tiles.map(({ from }) => from);
        expect(froms).toEqual([...froms].sort((a, b) => a - b));
        expect(tiles.some(({ units: own }) => own !== null)).toBe(units && dtype === DType.q4s);
      }
    }
    const serial = { products: "int16", lanes: "serial", outputs: 16, tileRows: 4 } as const;
    expect(gatheredTiles({ dtype: DType.q4s, arithmetic: serial })).toEqual([]);
  });
});
