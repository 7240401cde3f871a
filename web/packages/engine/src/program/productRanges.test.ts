// Ranges of products: which columns they have, their numbers, the programs of whoever holds them.
import { describe, expect, it } from "vitest";

import { hubProgram } from "./hubProgram.ts";
import { DType, RouteKind } from "./ir.ts";
import type { MatMul, MoeExperts, Op, Program, View, Weight } from "./ir.ts";
import { findHeadRanges, findRanges, firstColumnOf, rangeProgram } from "./productRanges.ts";
import { blobsOf, partPrograms } from "./shards.ts";

const kColumns = 64;

const view = (buffer: number, columns: number, firstColumn = 0): View =>
  ({ buffer, firstColumn, columns });

// In f32, a blob of its own.
function weight(name: string, ...shape: number[]): Weight {
  const byteCount = 4 * shape.reduce((product, dim) => product * dim, 1);
  const data = [{ digest: name, offset: 0, byteCount }];
  return { name, dtype: DType.f32, shape, data, scale: [], zero: [] };
}

interface Product {
  readonly from: View;
  readonly to: View;
  readonly weight: number;
  readonly firstRow?: number;
  readonly bias?: number | null;
  readonly ranges?: number;
}

function matmul({ from, to, weight: id, firstRow = 0, bias = null, ranges = 0 }: Product): MatMul {
  const rows = { weight: id, firstRow, rows: to.columns };
  return { kind: "matmul", in: from, out: to, weight: rows, bias, ranges };
}

// A norm and a product.
function head(vocabulary: number, ranges: number, bias: number | null = null): Program {
  const [x, normed, logits] = [view(0, kColumns), view(1, kColumns), view(2, vocabulary)];
  return {
    layerIndex: 9,
    buffers: [kColumns, kColumns, vocabulary].map((columns) => ({ name: "", columns })),
    weights: [weight("norm", kColumns), weight("head", vocabulary, kColumns)],
    ops: [
      { kind: "rmsNorm", in: x, out: normed, weight: 0, epsilon: 1e-6 },
      matmul({ from: normed, to: logits, weight: 1, bias, ranges }),
    ],
    input: 0,
    output: 2,
  };
}

const kGroups = 3;
const kQuery = 100, kKeys = 48; // columns; keys and values are rows of one weight

// q with a bias, k and v; o; then neuron groups behind a product of their own. q, k, v and o name
// so many ranges.
function layer(ranges: readonly [number, number, number, number]): Program {
  const columns = [kColumns, kColumns, kQuery, 2 * kKeys, kQuery, kGroups, 2 * kGroups];
  const [q, k, v, o] = ranges;
  const normed = view(1, kColumns);
  const experts: MoeExperts = {
    kind: "moeExperts", in: normed, route: view(6, 2 * kGroups), out: view(0, kColumns),
    experts: kGroups, topK: kGroups, activation: 0, gateUp: 5, down: 6, gateUpBias: null,
    downBias: null, grid: { step: 2 ** -10, limit: 2 ** 20 },
  };
  const ops: Op[] = [
    { kind: "rmsNorm", in: view(0, kColumns), out: normed, weight: 0, epsilon: 1e-6 },
    matmul({ from: normed, to: view(2, kQuery), weight: 1, bias: 2, ranges: q }),
    matmul({ from: normed, to: view(3, kKeys), weight: 3, ranges: k }),
    matmul({ from: normed, to: view(3, kKeys, kKeys), weight: 3, firstRow: kKeys, ranges: v }),
    matmul({ from: view(4, kQuery), to: view(0, kColumns), weight: 4, ranges: o }),
    matmul({ from: normed, to: view(5, kGroups), weight: 7 }),
    {
      kind: "moeRoute", logits: view(5, kGroups), out: view(6, 2 * kGroups), experts: kGroups,
      topK: kGroups, routeKind: RouteKind.all, bias: null, groups: 1, topGroups: 1, groupBest: 1,
      scale: 1, parts: 1,
    },
    experts,
  ];
  return {
    layerIndex: 4,
    buffers: columns.map((each) => ({ name: "", columns: each })),
    weights: [
      weight("norm", kColumns), weight("q", kQuery, kColumns), weight("q bias", kQuery),
      weight("kv", 2 * kKeys, kColumns), weight("o", kColumns, kQuery),
      weight("gate up", kGroups, 32, kColumns), weight("down", kGroups, kColumns, 16),
      weight("route", kGroups, kColumns),
    ],
    ops,
    input: 0,
    output: 0,
  };
}

describe("ranges of an output head", () => {
  it("cover the vocabulary in whole sixteens", () => {
    for (const total of [1000, 1024, 4096, 32_000, 49_155, 151_936, 262_144]) {
      // As HeadInRanges of product_ranges.h divides it.
      const columns = Math.max(512, Math.ceil(total / 32 / 16) * 16);
      const found = findHeadRanges(head(total, Math.ceil(total / columns)))!;
      expect(found).toMatchObject({ firstPart: 0, columns, total });
      let end = 0;
      for (let range = 0; range < found.count; ++range) {
        const first = firstColumnOf(found, range);
        expect(first).toBeLessThanOrEqual(end); // no gap
        end = first + found.columns;
      }
      expect(end).toBe(total);
    }
  });

  it("are those of the example in product_ranges.h", () => {
    const found = findHeadRanges(head(100, 3))!;
    expect([0, 1, 2].map((range) => firstColumnOf(found, range))).toEqual([0, 48, 52]);
    expect(found.columns).toBe(48);
    expect(findRanges(head(100, 3))).toEqual([found]);
  });

  it("are none where they do not divide it, or it has a bias", () => {
    for (const ranges of [0, 1, 300, 4097, 2 ** 32 - 1]) {
      expect(findHeadRanges(head(4096, ranges)), `${ranges}`).toBe(null);
    }
    expect(findHeadRanges(head(4096, 8, 0))).toBe(null);
    expect(findHeadRanges(head(4096, 8))).not.toBe(null);
    // Two ranges with more columns each than a frame has numbers for.
    expect(findHeadRanges(head(131_104, 2))).toBe(null);
  });

  it("are programs of some rows of its weight", () => {
    const programs = partPrograms(head(4096, 8), [1, 7]);
    expect(programs.map(({ kind }) => kind)).toEqual(["head", "head"]);
    expect(programs.map(({ parts }) => parts)).toEqual([[1], [7]]);
    for (const { program, parts } of programs) {
      expect(program.weights.map(({ shape }) => shape)).toEqual([[512, kColumns]]);
      const bytes = 512 * kColumns * 4;
      const data = [{ digest: "head", offset: parts[0]! * bytes, byteCount: bytes }];
      expect(program.weights[0]!.data).toEqual(data);
    }
    expect(() => partPrograms(head(4096, 8), [8])).toThrow("Layer 9 has no range 8 of a product.");
    expect(() => partPrograms(head(4096, 0), [0])).toThrow("Layer 9 has no experts.");
  });
});

describe("ranges of products in a layer of groups", () => {
  it("are numbered behind the groups, in the order of the operations", () => {
    const found = findRanges(layer([3, 2, 3, 4]));
    expect(found.map(({ firstPart, count, columns, total }) => [firstPart, count, columns, total]))
      .toEqual([[3, 3, 48, 100], [6, 2, 32, 48], [8, 3, 16, 48], [11, 4, 16, 64]]);
    expect(findHeadRanges(layer([3, 2, 3, 4]))).toBe(null);
  });

  it("leave whole what they do not divide", () => {
    // 48 columns in ranges of 16 are three, and 64 are none in five.
    const found = findRanges(layer([0, 2, 4, 5]));
    expect(found.map(({ firstPart, columns }) => [firstPart, columns])).toEqual([[3, 32]]);
    expect(findRanges(layer([0, 1, 49, 0]))).toEqual([]);
  });

  it("are none of a product inside a layer without experts", () => {
    const whole = layer([3, 2, 3, 4]);
    const ops = whole.ops.filter(({ kind }) => kind !== "moeExperts");
    const dense = { ...whole, ops, output: 6 };
    expect(findRanges(dense)).toEqual([]);
    expect(() => partPrograms(dense, [3])).toThrow("Layer 4 has no experts.");
  });

  it("are programs of their rows of the weight and the bias, beside one of the groups", () => {
    const program = layer([3, 2, 3, 4]);
    const programs = partPrograms(program, [0, 2, 5, 9, 14]);
    expect(programs.map(({ kind, parts }) => [kind, parts])).toEqual([
      ["experts", [0, 2]], ["product", [5]], ["product", [9]], ["product", [14]],
    ]);
    const [groups, q, v, o] = programs.map((each) => each.program) as
      [Program, Program, Program, Program];
    expect(groups.ops).toMatchObject([{ kind: "moeExperts", experts: 2, topK: 1 }]);
    const row = 4 * kColumns;
    expect(q.weights.map(({ shape, data }) => [shape, data])).toEqual([
      [[48, kColumns], [{ digest: "q", offset: 52 * row, byteCount: 48 * row }]],
      [[48], [{ digest: "q bias", offset: 52 * 4, byteCount: 48 * 4 }]],
    ]);
    expect(q.ops).toEqual([
      matmul({ from: view(0, kColumns), to: view(1, 48), weight: 0, bias: 1 }),
    ]);
    expect(v.weights.map(({ shape, data }) => [shape, data])).toEqual([
      [[16, kColumns], [{ digest: "kv", offset: (48 + 16) * row, byteCount: 16 * row }]],
    ]);
    expect(v.ops).toMatchObject([{ bias: null }]);
    expect(o.buffers.map(({ columns }) => columns)).toEqual([kQuery, 16]);
    expect(o.layerIndex).toBe(4);
  });

  it("may be all that is held, as may the groups", () => {
    const kinds = (parts: readonly number[]): string[] =>
      partPrograms(layer([3, 2, 3, 4]), parts).map(({ kind }) => kind);
    expect(kinds([3, 14])).toEqual(["product", "product"]);
    expect(kinds([1])).toEqual(["experts"]);
  });

  it("that the layer does not have are refused", () => {
    const program = layer([3, 2, 3, 4]);
    const why = "Layer 4 has no range 15 of a product.";
    expect(() => partPrograms(program, [0, 15])).toThrow(why);
    expect(() => rangeProgram(program, findRanges(program), 2)).toThrow("has no range 2");
    expect(() => partPrograms(layer([0, 0, 0, 0]), [0, 3])).toThrow("has no expert 3, only 3.");
    expect(() => partPrograms(program, [])).toThrow("was asked for none of its experts.");
  });

  it("are whole products of a hub", () => {
    const program = layer([3, 2, 3, 4]);
    const hub = hubProgram(program);
    const matmuls = hub.ops.filter((op): op is MatMul => op.kind === "matmul");
    const rowsOf = ({ weight: { weight: id, firstRow, rows } }: MatMul): unknown =>
      [hub.weights[id]!.name, firstRow, rows];
    expect(matmuls.map(rowsOf)).toEqual([
      ["q", 0, kQuery], ["kv", 0, kKeys], ["kv", kKeys, kKeys], ["o", 0, kColumns],
      ["route", 0, kGroups],
    ]);
    expect(hub.ops.map(({ kind }) => kind)).toEqual([
      "rmsNorm", "matmul", "matmul", "matmul", "matmul", "matmul", "exchange",
    ]);
    expect(blobsOf(hub)).toEqual(["norm", "q", "q bias", "kv", "o", "route"]);
    // An output head, too.
    expect(hubProgram(head(4096, 8))).toEqual(head(4096, 8));
  });
});
