// Ranges of a layer's products on the GPU, beside its neuron groups: their columns have the bits of
// the whole products, with a bias and without, in every form of weights. And the hub of such a
// layer, which computes whole products.
import { describe, expect, it } from "vitest";

import { decodeProgram } from "@weft/engine/program/decode.ts";
import { hubProgram } from "@weft/engine/program/hubProgram.ts";
import { isBlockFormat, RouteKind } from "@weft/engine/program/ir.ts";
import type { MatMul, Program, View } from "@weft/engine/program/ir.ts";
import { findRanges, firstColumnOf } from "@weft/engine/program/productRanges.ts";
import type { ProductRanges } from "@weft/engine/program/productRanges.ts";
import { weightOf } from "@weft/engine/test/caseInputs.ts";
import type { WeightArrays } from "@weft/engine/test/caseInputs.ts";
import { sharedNodeGpu } from "@weft/engine/test/nodeGpu.ts";
import { ToyModel } from "@weft/engine/test/toyModel.ts";
import type { ToyLayer } from "@weft/engine/test/toyModel.ts";
import { readValues } from "@weft/engine/weights/vectors.ts";
import { kDefaultOptions, WebGpuEngine } from "@weft/engine/webgpuEngine.ts";
import { ExpertFrameType, RowType } from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";

import { ExpertBlobs } from "../download/expertBlobs.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { ExpertHost } from "./expertHost.ts";

const gpu = await sharedNodeGpu();
const kLayers = [1, 2];
const kLayerCount = 3;
const kWholeLayer = 900; // of the engine: one product alone
const kGroups = 3;
const kHeads = 4;

interface Shape {
  readonly kind: string; // of the products' weights
  readonly hidden: number;
  readonly headColumns: number;
  readonly ranges: readonly [number, number, number, number]; // of q, k, v and o
}

// The last range begins before the one before it ends, where 28 columns are a head's.
const kShapes: readonly Shape[] = [
  { kind: "f32", hidden: 64, headColumns: 28, ranges: [3, 2, 2, 4] },
  { kind: "f16", hidden: 72, headColumns: 28, ranges: [3, 2, 2, 2] },
  { kind: "q8", hidden: 64, headColumns: 28, ranges: [3, 2, 2, 4] },
  { kind: "q4", hidden: 96, headColumns: 28, ranges: [2, 2, 2, 3] },
  ...(gpu?.hasIntegerDots
    ? [{ kind: "q4k", hidden: 256, headColumns: 64, ranges: [3, 2, 2, 4] } as const]
    : []),
];
const kPlain = kShapes[0]!;

// A norm, q, k and v, attention over two heads of keys, and o; then neuron groups. Keys and values
// are rows of one weight.
function layerOf(
  { kind, hidden, headColumns, ranges }: Shape,
  hasBias: boolean,
  seed: number,
): ToyLayer {
  const [query, keys] = [kHeads * headColumns, 2 * headColumns];
  const columns = [hidden, hidden, query, 2 * keys, query, hidden, kGroups, 2 * kGroups];
  const view = (buffer: number, count = columns[buffer]!, firstColumn = 0): View =>
    ({ buffer, firstColumn, columns: count });
  const weight = (shape: number[], own: number, of = "f32", amplitude = 1): WeightArrays =>
    weightOf({ kind: of, shape, seed: 10 * seed + own, amplitude });
  const product = (from: View, to: View, of: number, count = 0, more: object = {}) => {
    const rows = { weight: of, firstRow: 0, rows: to.columns };
    const value = { in: from, out: to, weight: rows, ranges: count, ...more };
    return { kind: { case: "matmul" as const, value } };
  };
  const bias = (of: number): object => (hasBias ? { bias: of } : {});
  const valueRows = { weight: { weight: 2, firstRow: keys, rows: keys } };
  const [x, normed, sums] = [view(0), view(1), view(5)];
  const [k, v] = [view(3, keys), view(3, keys, keys)];
  const normOf = { in: x, out: normed, weight: 0, epsilon: 1e-6 };
  const norm = { kind: { case: "rmsNorm" as const, value: normOf } };
  const add = { kind: { case: "add" as const, value: { a: x, b: sums, out: x } } };
  const attention = {
    q: view(2), k, v, out: view(4), heads: kHeads, kvHeads: 2, headColumns,
    scale: 1 / Math.sqrt(headColumns),
  };
  const route = {
    logits: view(6), out: view(7), experts: kGroups, topK: kGroups, kind: RouteKind.all,
  };
  const experts = {
    in: normed, route: view(7), out: sums, experts: kGroups, topK: kGroups, gateUp: 6, down: 7,
    gridStep: 2 ** -10, gridLimit: 2 ** 20,
  };
  return {
    buffers: columns,
    weights: [
      weight([hidden], 1), weight([query, hidden], 2, kind), weight([2 * keys, hidden], 3, kind),
      weight([hidden, query], 4, kind), weight([query], 5), weight([hidden], 6, "f16"),
      weight([kGroups, 48, hidden], 7, "f32", 0.1), weight([kGroups, hidden, 24], 8, "f32", 0.1),
      weight([kGroups, hidden], 9),
    ],
    ops: [
      norm,
      product(normed, view(2), 1, ranges[0], bias(4)),
      product(normed, k, 2, ranges[1]),
      product(normed, v, 2, ranges[2], valueRows),
      { kind: { case: "attention" as const, value: attention } },
      product(view(4), sums, 3, ranges[3], bias(5)),
      add,
      norm,
      product(normed, view(6), 8),
      { kind: { case: "moeRoute" as const, value: route } },
      { kind: { case: "moeExperts" as const, value: experts } },
      add,
    ],
    input: 0,
    output: 0,
  };
}

const modelOf = (shape: Shape, hasBias: boolean): ToyModel =>
  new ToyModel(new Map(kLayers.map((layer) => [layer, layerOf(shape, hasBias, layer)])));

const programOf = (model: ToyModel, layer: number): Program =>
  decodeProgram(model.programBytes(layer));

interface Rig {
  readonly model: ToyModel;
  readonly engine: WebGpuEngine;
  readonly host: ExpertHost;
}

function rigOf(shape: Shape, hasBias: boolean): Rig {
  const model = modelOf(shape, hasBias);
  const dropCopies = (): Promise<void> => Promise.resolve();
  const blobs = new ExpertBlobs(Object.assign(model, { dropCopies }) as unknown as PackageSource);
  const engine = new WebGpuEngine(gpu!, kDefaultOptions);
  return { model, engine, host: new ExpertHost(kLayerCount, blobs, () => Promise.resolve(engine)) };
}

async function hold(host: ExpertHost, experts: readonly number[]): Promise<void> {
  const sets = kLayers.map((layer) => ({ layer, experts }));
  for (let rest = 1; rest > 0;) ({ rest } = await host.install(sets, () => undefined));
}

const partsOf = ({ firstPart, count }: ProductRanges): number[] =>
  Array.from({ length: count }, (_, range) => firstPart + range);

function rowsOf(columns: number, tokens: number): Uint8Array {
  const values = Float32Array.from({ length: tokens * columns }, (_, i) => Math.sin(1 + 0.7 * i));
  return new Uint8Array(values.buffer);
}

function dispatch(
  layer: number,
  expert: number,
  rows: Uint8Array,
  tokens: number,
): ExpertFrame {
  return {
    type: ExpertFrameType.dispatch, sequence: 5, layer, expert, tokens,
    hidden: rows.length / 4 / tokens, sameRows: false, failed: false,
    rows, body: new Uint8Array(0), maySum: false, best: false,
    takesSteps: false, added: [], rowType: RowType.f32,
  };
}

const floatsOf = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.slice().buffer);
const textOf = ({ body }: ExpertFrame): string => new TextDecoder().decode(body);

// All columns of a product, as a layer of its own.
async function whole(
  { model, engine }: Rig,
  { weights }: Program,
  product: MatMul,
  hidden: Float32Array,
  count: number,
): Promise<Float32Array> {
  const [columns, total] = [product.in.columns, product.out.columns];
  const view = (buffer: number, of: number): View => ({ buffer, firstColumn: 0, columns: of });
  await engine.loadProgram({
    layerIndex: kWholeLayer,
    buffers: [{ name: "row", columns }, { name: "all", columns: total }],
    weights,
    ops: [{ ...product, in: view(0, columns), out: view(1, total), ranges: 0 }],
    input: 0,
    output: 1,
  }, model);
  const layers = { first: kWholeLayer, end: kWholeLayer + 1 };
  const output = { kind: "logits" } as const;
  const run = { session: 1, generation: 0, firstPosition: 0, count, output };
  const tokenIds = new Int32Array(0);
  const { logits } = await engine.step({ layers, runs: [run], tokenIds, hidden });
  engine.release(1);
  await engine.unload(layers);
  return logits;
}

// The columns of all ranges of a product. NaN: nobody gave it, or two ranges gave unlike values.
function joined(
  ranges: ProductRanges,
  results: readonly ExpertFrame[],
  tokens: number,
): Float32Array {
  const { columns, total } = ranges;
  const all = new Float32Array(tokens * total).fill(NaN);
  const given = new Set<number>();
  for (const { expert, rows } of results) {
    const first = firstColumnOf(ranges, expert);
    for (const [i, value] of floatsOf(rows).entries()) {
      const at = Math.floor(i / columns) * total + first + (i % columns);
      all[at] = given.has(at) && all[at] !== value ? NaN : value;
      given.add(at);
    }
  }
  return all;
}

// How far the first row of a product is from what doubles give, where the weights are no blocks.
async function distanceOf(
  { model }: Rig,
  { weights }: Program,
  { weight, bias, in: { columns } }: MatMul,
  [x, given]: readonly [Float32Array, Float32Array],
): Promise<number> {
  if (isBlockFormat(weights[weight.weight]!.dtype)) return 0;
  const matrix = await readValues(weights[weight.weight]!, model);
  const added = bias === null ? null : await readValues(weights[bias]!, model);
  let most = 0;
  for (let column = 0; column < weight.rows; ++column) {
    let sum = added?.[column] ?? 0;
    const first = (weight.firstRow + column) * columns;
    for (let i = 0; i < columns; ++i) sum += x[i]! * matrix[first + i]!;
    most = Math.max(most, Math.abs(given[column]! - sum));
  }
  return most;
}

// All ranges of all products of a layer, for so many rows at once.
async function expectWhole(rig: Rig, layer: number, tokens: number): Promise<void> {
  const program = programOf(rig.model, layer);
  for (const ranges of findRanges(program)) {
    const { product, columns } = ranges;
    const rows = rowsOf(product.in.columns, tokens);
    const asked = partsOf(ranges).map((part) => dispatch(layer, part, rows, tokens));
    const { results, error } = await rig.host.run(asked);
    expect(error).toBe(null);
    expect(results.map(({ hidden }) => hidden)).toEqual(asked.map(() => columns));
    const expected = await whole(rig, program, product, floatsOf(rows), tokens);
    const columnsGiven = joined(ranges, results, tokens);
    expect(columnsGiven.length).toBe(expected.length);
    expect(columnsGiven.findIndex((value, i) => value !== expected[i])).toBe(-1);
    const distance = await distanceOf(rig, program, product, [floatsOf(rows), expected]);
    expect(distance).toBeLessThan(1e-4);
  }
}

describe.skipIf(!gpu)("ranges of a layer's products of a tab", { timeout: 300_000 }, () => {
  const kinds = kShapes.flatMap((shape) =>
    [false, true].map((hasBias) => ({ shape, hasBias, kind: shape.kind })));

  it.each(kinds)("have the bits of whole ones: $kind, bias $hasBias", async (each) => {
    const { shape, hasBias } = each;
    const rig = rigOf(shape, hasBias);
    const found = findRanges(programOf(rig.model, 1));
    expect(found.map(({ count }) => count)).toEqual(shape.ranges);
    const biases = found.map(({ product }) => product.bias !== null);
    expect(biases).toEqual([hasBias, false, false, hasBias]);
    await hold(rig.host, [0, 2, ...found.flatMap(partsOf)]);
    for (const tokens of [1, 70]) await expectWhole(rig, 1, tokens);
    await expectWhole(rig, 2, 3);
    rig.engine.freeBuffers();
  });
});

describe.skipIf(!gpu)("a tab with ranges of a layer's products", { timeout: 300_000 }, () => {
  it("gives them beside sums of its groups, never added up themselves", async () => {
    const { host, engine } = rigOf(kPlain, true);
    await hold(host, [0, 1, 2, 3, 5, 6]); // two ranges of q, one of k
    const rows = rowsOf(kPlain.hidden, 2);
    const wanted = [0, 1, 2, 3, 5, 6].map((part) => dispatch(1, part, rows, 2));
    const apart = await host.run(wanted);
    expect(apart.rows).toBe(12);
    const frames = wanted.map((frame) => ({ ...frame, maySum: true, takesSteps: true }));
    const { results } = await host.run(frames);
    expect(results.map(({ expert, added, rowType }) => ({ expert, added, rowType }))).toEqual([
      { expert: 0, added: [1, 2], rowType: RowType.steps },
      ...[3, 5, 6].map((expert) => ({ expert, added: [], rowType: RowType.f32 })),
    ]);
    expect(results.slice(1).map((each) => each.rows)).toEqual(
      apart.results.slice(3).map((each) => each.rows),
    );
    engine.freeBuffers();
  });

  it("refuses those that it does not hold, other rows, and to say their best tokens", async () => {
    const { host, engine } = rigOf(kPlain, false);
    await hold(host, [0, 3, 10]); // the first of q, and of o
    const [rows, others] = [rowsOf(kPlain.hidden, 1), rowsOf(4 * kPlain.headColumns, 1)];
    const { results } = await host.run([
      dispatch(1, 4, rows, 1),
      dispatch(1, 3, others, 1),
      dispatch(1, 10, rows, 1),
      { ...dispatch(1, 3, rows, 1), best: true },
      dispatch(1, 10, others, 1),
    ]);
    expect(results.map(textOf)).toEqual([
      "Expert 4 of layer 1 is not held here.",
      "The rows have 112 columns, layer 1 takes 64.",
      "The rows have 64 columns, layer 1 takes 112.",
      "Layer 1 is no output head: it has no best tokens.",
      "",
    ]);
    expect(results[4]).toMatchObject({ failed: false, hidden: 16 });
    await expect(hold(host, [0, 14])).rejects.toThrow("Layer 1 has no range 14 of a product.");
    engine.freeBuffers();
  });

  it("holds what was said last, and nothing of what it held before", async () => {
    const { host, engine } = rigOf(kPlain, true);
    await hold(host, [0, 3, 4]);
    const before = engine.memory().weightBytes;
    const rows = rowsOf(kPlain.hidden, 1);
    const first = (await host.run([dispatch(2, 4, rows, 1)])).results[0]!;
    await hold(host, [4, 9]);
    expect(engine.memory().weightBytes).toBeLessThan(before);
    const { results } = await host.run([4, 0, 3].map((part) => dispatch(2, part, rows, 1)));
    expect(results[0]!.rows).toEqual(first.rows);
    expect(results.map(({ failed }) => failed)).toEqual([false, true, true]);
    await host.clear();
    expect([engine.memory().weightBytes, host.usedBytes]).toEqual([0, 0]);
    engine.freeBuffers();
  });
});

describe.skipIf(!gpu)("a tab's hub of a layer with ranges of products", () => {
  it("computes whole products, as of a layer that names no ranges", async () => {
    const given: Float32Array[] = [];
    for (const shape of [kPlain, { ...kPlain, ranges: [0, 0, 0, 0] } as const]) {
      const model = modelOf(shape, true);
      const program = programOf(model, 1);
      expect(findRanges(program).length).toBe(shape === kPlain ? 4 : 0);
      const engine = new WebGpuEngine(gpu!, kDefaultOptions);
      await engine.loadProgram(hubProgram(program), model);
      const asked: Float32Array[] = [];
      const output = { kind: "hidden" } as const;
      const { hidden } = await engine.step({
        layers: { first: 1, end: 2 },
        runs: [{ session: 1, generation: 0, firstPosition: 0, count: 3, output }],
        tokenIds: new Int32Array(0),
        hidden: floatsOf(rowsOf(kPlain.hidden, 3)),
        // One exchange, that of the groups.
        exchange: ({ out, rowCount, inColumns }) => {
          asked.push(out.slice());
          return Promise.resolve(new Float32Array(rowCount * inColumns));
        },
      });
      expect(asked.length).toBe(1);
      given.push(hidden, asked[0]!);
      engine.freeBuffers();
    }
    expect([given[2], given[3]]).toEqual([given[0], given[1]]);
    expect(given[0]!.every(Number.isFinite)).toBe(true);
  });
});
