// How many workgroups a product takes: every group of the matrix once, in one row's step and in
// many rows', and half as many workgroups where a matrix is wide.
import { describe, expect, it } from "vitest";

import type { Arithmetic, RowWalk } from "../kernels/product/arithmetic.ts";
import { DType } from "../program/ir.ts";
import type { Draft } from "./dispatch.ts";
import { slabDrafts } from "./products.ts";

const arithmetic: Arithmetic = {
  products: "int16",
  lanes: "shared",
  outputs: 16,
  tileRows: 4,
};

function grids(
  groupCount: number,
  rows: number,
  more: Partial<Arithmetic> = {},
  dtype: number = DType.q4,
  blocks = 128,
): number[][] {
  const of = {
    dtype,
    arithmetic: { ...arithmetic, ...more },
    parts: 4,
    withNorm: false,
    paired: false,
    experts: false,
    biased: false,
    blocks,
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

  it("make outputs of one row as their number and the columns ask for", () => {
    const one = (
      groups: number,
      rowWalk: RowWalk,
      blocks = 128,
      dtype: number = DType.q4s,
    ): number => grids(groups, 1, { lanes: "subgroups", rowWalk }, dtype, blocks).at(-1)![0]!;
    expect(one(512, "quarters")).toBe(256);
    expect(one(512, "blocks")).toBe(256);
    expect(one(512, "wide")).toBe(256);
    expect(one(512, "wide", 384)).toBe(256);
    expect(one(256, "wide", 192)).toBe(256);
    expect(one(768, "blocks")).toBe(192);
    expect(one(768, "wide")).toBe(96);
    expect(one(3072, "blocks")).toBe(384);
    expect(one(3072, "wide", 384)).toBe(384);
    expect(one(256, "wide", 64)).toBe(128);
    expect(one(1536, "wide", 64)).toBe(384);
    expect(one(256, "wide", 64, DType.q6k)).toBe(64);
    expect(one(256, "wide", 32)).toBe(128); // short rows are shared by quarters
    expect(one(768, "wide", 128, DType.q6k)).toBe(192);
    expect(one(8192, "wide", 128, DType.q6k)).toBe(1024);
  });

  it("make tiles for the number of rows and outputs on matrix units", () => {
    const units = { lanes: "subgroups", units: true, fewUnits: true } as const;
    const grid = (groups: number, rows: number): number[] | undefined =>
      grids(groups, rows, units, DType.q4s).at(-1);
    const narrow = [8, 9, 16, 17, 64, 65, 256, 257].map((rows) => grid(512, rows));
    expect(narrow).toEqual([
      [1, 256, 1], // 8 rows, 16 outputs
      ...[[1, 128, 1], [1, 128, 1]], // 16 rows, 32 outputs
      ...[[2, 64, 1], [4, 64, 1]], // 16 rows, 64 outputs
      ...[[2, 64, 1], [4, 64, 1]], // 64 rows, 64 outputs
      [3, 32, 1], // 128 rows, 128 outputs
    ]);
    const wide = [9, 17, 32, 33, 64, 65].map((rows) => grid(3072, rows));
    expect(wide).toEqual([
      [1, 768, 1], // 16 rows, 32 outputs
      ...[[1, 384, 1], [1, 384, 1]], // 32 rows, 64 outputs
      ...[[1, 384, 1], [1, 384, 1]], // 64 rows, 64 outputs
      [1, 192, 1], // 128 rows, 128 outputs
    ]);
    const many = { ...units, fewUnits: false };
    expect(grids(3072, 32, many, DType.q4s)[1]).toEqual([4, 1536, 1]); // 8 rows, 16 outputs
    for (let rows = 1; rows <= 512; ++rows) {
      expect(grids(512, rows, units, DType.q4s).length, `${rows} rows`).toBe(rows > 1 ? 2 : 1);
    }
  });

  it("make a group an invocation, serially", () => {
    expect(grids(2048, 3, { lanes: "serial" })).toEqual([[128, 3, 1]]);
  });
});
