// Products of heads in one dispatch (dispatch/headRuns.ts): the bits of each head's product alone,
// whatever the arithmetic, the number of heads and rows, and the form of the weights. Alone they
// are when a program names the heads from the last to the first.
import { describe, expect, it } from "vitest";

import type { Fused, Product } from "./dispatch/fuse.ts";
import { fuse } from "./dispatch/fuse.ts";
import type { Arithmetic } from "./kernels/product/arithmetic.ts";
import { decodeProgram } from "./program/decode.ts";
import type { CaseInput } from "./test/caseInputs.ts";
import { weightOf } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { ToyModel } from "./test/toyModel.ts";
import type { ToyLayer } from "./test/toyModel.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const only = { first: 1, end: 2 };

interface Shape {
  readonly kind: string; // of the weights
  readonly heads: number;
  readonly turned: number; // outputs of a head from the input that all share
  readonly own: number; // from columns of its own
  readonly ownColumns: number;
}

const kHidden = 72;

// The query of latent attention, and a product by heads behind it: a norm, a product and those of
// heads with one input, then those of heads with an input each, put together in one view.
interface Order {
  readonly isReversed?: boolean; // heads come from the last to the first
  readonly keepsNorm?: boolean; // something else reads it, so that it is not made on the way in
}

function layerOf(
  { kind, heads, turned, own, ownColumns }: Shape,
  { isReversed = false, keepsNorm = false }: Order = {},
): ToyLayer {
  const width = turned + own;
  const columns = [kHidden, kHidden, heads * ownColumns, heads * width, kHidden, kHidden];
  const view = (buffer: number, firstColumn = 0, count = columns[buffer]!) => ({
    buffer,
    firstColumn,
    columns: count,
  });
  const weight = (seed: number, shape: readonly number[], of = kind): CaseInput => ({
    kind: of,
    shape,
    seed,
  });
  type View = ReturnType<typeof view>;
  const product = (from: View, to: View, of: number, firstRow = 0) => ({
    kind: {
      case: "matmul" as const,
      value: { in: from, out: to, weight: { weight: of, firstRow, rows: to.columns } },
    },
  });
  const each = Array.from({ length: heads }, (_, head) => (isReversed ? heads - 1 - head : head));
  const normed = { in: view(0), out: view(1), weight: 0, epsilon: 1e-5 };
  return {
    buffers: columns,
    weights: [
      weight(1, [kHidden], "f32"),
      weight(2, [heads * ownColumns, kHidden]),
      weight(3, [heads * turned, kHidden]),
      weight(4, [heads * own, ownColumns]),
      weight(5, [kHidden, heads * width]),
    ].map(weightOf),
    ops: [
      { kind: { case: "rmsNorm", value: normed } },
      product(view(1), view(2), 1),
      ...each.map((h) => product(view(1), view(3, h * width, turned), 2, h * turned)),
      ...each.map((h) =>
        product(view(2, h * ownColumns, ownColumns), view(3, h * width + turned, own), 3, h * own)),
      product(view(3), view(4), 4),
      { kind: { case: "add", value: { a: view(keepsNorm ? 1 : 0), b: view(4), out: view(5) } } },
    ],
    input: 0,
    output: 5,
  };
}

const modelOf = (shape: Shape, order: Order = {}): ToyModel =>
  new ToyModel(new Map([[1, layerOf(shape, order)]]));

const products = (model: ToyModel): Product[] =>
  fuse(decodeProgram(model.programBytes(1))).filter(
    (step: Fused): step is Product => step.kind === "product",
  );

interface Ran {
  readonly rows: number[];
  readonly dispatches: number; // of one row
}

// One row of the layer in doubles, from weights in f32.
function reference(shape: Shape, x: readonly number[]): number[] {
  const { heads, turned, own, ownColumns } = shape;
  const width = turned + own;
  const [norm, plain, turning, absorbed, down] = layerOf(shape).weights.map(({ data }) => [
    ...new Float32Array(data.slice().buffer),
  ]) as [number[], number[], number[], number[], number[]];
  const times = (matrix: readonly number[], row: number, of: readonly number[]): number =>
    of.reduce((sum, value, k) => sum + value * matrix[row * of.length + k]!, 0);
  const mean = x.reduce((sum, value) => sum + value * value, 0) / kHidden;
  const normed = x.map((value, k) => (value * norm[k]!) / Math.sqrt(mean + 1e-5));
  const apart = Array.from({ length: heads * ownColumns }, (_, n) => times(plain, n, normed));
  const query = Array.from({ length: heads * width }, (_, n) => {
    const head = Math.floor(n / width);
    const at = n % width;
    if (at < turned) return times(turning, head * turned + at, normed);
    const columns = apart.slice(head * ownColumns, (head + 1) * ownColumns);
    return times(absorbed, head * own + at - turned, columns);
  });
  return x.map((value, n) => value + times(down, n, query));
}

const inputOf = (firstRow: number, rows: number): number[] =>
  Array.from({ length: rows * kHidden }, (_, i) => Math.sin((i + firstRow * kHidden) * 0.37));

// Rows of each session of a step.
const kSteps = [[1], [7], [40], [3, 2, 1]];

// The rows of all sessions, at last of several in one step.
async function run(
  model: ToyModel,
  tuning: Arithmetic,
  steps: readonly (readonly number[])[] = kSteps,
): Promise<Ran> {
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, tuning });
  await engine.load(only, model);
  const rows: number[] = [];
  const { encoder } = engine.machine;
  let dispatches = 0;
  let firstRow = 0;
  for (const [step, counts] of steps.entries()) {
    const all = counts.reduce((sum, each) => sum + each, 0);
    const before = encoder.dispatchCount;
    const output = { kind: "hidden" } as const;
    const { hidden } = await engine.step({
      layers: only,
      runs: counts.map((each, session) => ({
        session: 10 * step + session, generation: 0, firstPosition: 0, count: each, output,
      })),
      tokenIds: new Int32Array(0),
      hidden: Float32Array.from(inputOf(firstRow, all)),
    });
    firstRow += all;
    if (all === 1) dispatches = encoder.dispatchCount - before;
    rows.push(...hidden);
  }
  engine.freeBuffers();
  return { rows, dispatches };
}

// Five heads with whole groups of 8 rows, as models have them; five with 12 and 5 rows, whose
// groups are padded head by head; columns that are no multiple of anything.
const kShapes: readonly Shape[] = [
  { kind: "q4", heads: 5, turned: 16, own: 40, ownColumns: 24 },
  { kind: "q8", heads: 5, turned: 12, own: 5, ownColumns: 40 },
  { kind: "f16", heads: 3, turned: 8, own: 24, ownColumns: 13 },
  { kind: "f32", heads: 4, turned: 8, own: 9, ownColumns: 36 },
];

const arithmetic = (of: Partial<Arithmetic>): Arithmetic => ({
  products: "f32", lanes: "shared", outputs: 16, tileRows: 4, ...of,
});
const kArithmetics: readonly Arithmetic[] = [
  arithmetic({ lanes: "serial" }),
  arithmetic({ outputs: 32 }),
  ...(gpu?.hasIntegerDots
    ? [arithmetic({ products: "int16" }), arithmetic({ products: "int16", lanes: "serial" })]
    : []),
];

describe("products of heads", () => {
  it("are one dispatch beside the product that shares their input, and one by heads", () => {
    const made = products(modelOf(kShapes[0]!));
    expect(made.map(({ matmuls }) => matmuls.length)).toEqual([6, 5, 1]);
    expect(made[0]).toMatchObject({ norm: { kind: "rmsNorm" }, heads: null });
    expect(made[1]!.heads).toMatchObject({ inStep: 24, outStep: 56 });
  });

  it("are by heads where their rows are no whole groups", () => {
    const made = products(modelOf(kShapes[1]!));
    expect(made.map(({ matmuls }) => matmuls.length)).toEqual([1, 5, 5, 1]);
    expect(made[1]!.heads).toMatchObject({ inStep: 0, outStep: 17 });
  });

  it("stay alone from the last head to the first", () => {
    const made = products(modelOf(kShapes[0]!, { isReversed: true }));
    expect(made.map(({ heads }) => heads)).toEqual(made.map(() => null));
    expect(made.length).toBe(2 + 5 + 1);
  });
});

describe.skipIf(!gpu)("products of heads on the GPU", { timeout: 600_000 }, () => {
  it("are what doubles give", async () => {
    const shape = kShapes[3]!;
    const { rows } = await run(modelOf(shape), kArithmetics[0]!);
    const expected = reference(shape, inputOf(0, 1));
    expect(expected.some((value, k) => Math.abs(value - inputOf(0, 1)[k]!) > 1)).toBe(true);
    for (const [k, value] of expected.entries()) {
      expect(Math.abs(rows[k]! - value)).toBeLessThan(1e-4 * Math.max(1, Math.abs(value)));
    }
  });

  for (const shape of kShapes) {
    const { heads, kind } = shape;
    const isOfBlocks = kind === "q4" || kind === "q8"; // others are multiplied in f32
    for (const tuning of kArithmetics) {
      const how = `${kind}, ${tuning.products} ${tuning.lanes}`;
      if (tuning.products === "int16" && !isOfBlocks) continue;
      it(`have the bits of ${heads} alone: ${how}`, async () => {
        const alone = await run(modelOf(shape, { isReversed: true, keepsNorm: true }), tuning);
        const together = await run(modelOf(shape, { keepsNorm: true }), tuning);
        expect(together.rows).toEqual(alone.rows);
        expect(together.rows.every(Number.isFinite)).toBe(true);
        expect(together.dispatches).toBeLessThan(alone.dispatches);
      });

      it(`give a row the same bits alone and among others: ${how}`, async () => {
        const among = await run(modelOf(shape), tuning, [[1], [38], [3, 6]]);
        const alone = await run(modelOf(shape), tuning, Array.from({ length: 48 }, () => [1]));
        expect(among.rows).toEqual(alone.rows);
      });
    }
  }
});
