// How many workgroups a product takes: every group of the matrix once, in one row's step and in
// many rows', and half as many workgroups where a matrix is wide.
import { describe, expect, it } from "vitest";

import type { Arithmetic } from "../kernels/product/arithmetic.ts";
import { DType } from "../program/ir.ts";
import type { Draft } from "./dispatch.ts";
import { slabDrafts } from "./products.ts";

const arithmetic: Arithmetic = {
  products: "int16",
  lanes: "shared",
  outputs: 16,
  tileRows: 4,
};

function grids(groupCount: number, rows: number, more: Partial<Arithmetic> = {}): number[][] {
  const of = {
    dtype: DType.q4,
    arithmetic: { ...arithmetic, ...more },
    parts: 4,
    withNorm: false,
    paired: false,
    experts: false,
    biased: false,
  };
  const shape = { rows, chunks: 1, runs: 1 };
  return slabDrafts(of, [{ groupCount, params: new Uint8Array(256), bound: {} }])
    .filter((draft: Draft) => draft.when(shape))
    .map((draft: Draft) => [...draft.grid(shape)]);
}

describe("workgroups of a product", () => {
  it("make 16 outputs of one row", () => {
    expect(grids(512, 1)).toEqual([[256, 1, 1]]);
    expect(grids(513, 1)).toEqual([[257, 1, 1]]);
  });

  it("make as many as the arithmetic says", () => {
    expect(grids(2048, 1, { outputs: 8 })).toEqual([[2048, 1, 1]]);
    expect(grids(2048, 1, { outputs: 32 })).toEqual([[512, 1, 1]]);
  });

  it("make 16 of four rows, whose inputs are quantised before", () => {
    expect(grids(2048, 9)).toEqual([
      [9, 1, 1],
      [3, 1024, 1],
    ]);
  });

  it("make 64 of 32 rows, of many rows", () => {
    expect(grids(2048, 32)[1]).toEqual([8, 1024, 1]);
    expect(grids(2048, 33)).toEqual([
      [33, 1, 1],
      [2, 256, 1],
    ]);
    expect(grids(2049, 65)[1]).toEqual([3, 257, 1]);
  });

  it("make a group an invocation, serially", () => {
    expect(grids(2048, 3, { lanes: "serial" })).toEqual([[128, 3, 1]]);
  });
});
