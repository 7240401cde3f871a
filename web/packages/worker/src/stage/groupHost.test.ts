// A tab's neuron groups, and ranges of attention's products and the output head, on the GPU, of a
// package that `weft groups` made. They are compared with sums in double precision over the
// package's own weights, and with each other.
// Needs build/release/weft (or WEFT), which makes the package.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { decodeProgram } from "@weft/engine/program/decode.ts";
import type { MoeExperts, Program } from "@weft/engine/program/ir.ts";
import {
  findHeadRanges, findRanges, firstColumnOf,
} from "@weft/engine/program/productRanges.ts";
import type { ProductRanges } from "@weft/engine/program/productRanges.ts";
import { sharedNodeGpu } from "@weft/engine/test/nodeGpu.ts";
import { PackageFolder } from "@weft/engine/test/packageFolder.ts";
import { readValues } from "@weft/engine/weights/vectors.ts";
import { kDefaultOptions, WebGpuEngine } from "@weft/engine/webgpuEngine.ts";
import { ExpertFrameType, RowType } from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";

import { ExpertBlobs } from "../download/expertBlobs.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { ExpertHost } from "./expertHost.ts";

const root = join(import.meta.dirname, "../../../../..");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const gpu = existsSync(weft) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-groups-"));
afterAll(() => rmSync(folder, { recursive: true }));

const kLayer = 1;

let source: PackageFolder, engine: WebGpuEngine, host: ExpertHost;

beforeAll(async () => {
  if (!gpu) return;
  const [dense, groups, text] = ["dense", "groups", "text.jsonl"].map((name) => join(folder, name));
  const run = (...args: string[]): void => {
    execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
  };
  writeFileSync(text!, JSON.stringify("Tell me a story about a fox."));
  run("convert", join(root, "models/weft-tiny"), dense!, "--quant", "f32");
  run("groups", dense!, groups!, "--text", text!, "--columns", "64", "--attention", "divided");
  source = new PackageFolder(groups!);
  const dropCopies = (): Promise<void> => Promise.resolve();
  const blobs = new ExpertBlobs(Object.assign(source, { dropCopies }) as unknown as PackageSource);
  engine = new WebGpuEngine(gpu, kDefaultOptions);
  host = new ExpertHost(source.range.end, blobs, () => Promise.resolve(engine));
  const ranges = { layer: kHead(), experts: [0, 2, 5] };
  const products = findRanges(await programOf(kLayer)).flatMap(partsOf);
  const sets = [{ layer: kLayer, experts: [0, 3, 4, 7, ...products] }, ranges];
  for (let rest = 1; rest > 0;) ({ rest } = await host.install(sets, () => undefined));
}, 120_000);
afterAll(() => engine?.freeBuffers());

const kHead = (): number => source.range.end - 1;

const partsOf = ({ firstPart, count }: ProductRanges): number[] =>
  Array.from({ length: count }, (_, range) => firstPart + range);

async function programOf(layer: number): Promise<Program> {
  return decodeProgram(await source.readBlob(source.layerProgram(layer)));
}

function rowsOf(columns: number, tokens: number): Uint8Array {
  const values = Float32Array.from({ length: tokens * columns }, (_, i) => Math.sin(1 + i));
  return new Uint8Array(values.buffer);
}

function dispatch(layer: number, expert: number, rows: Uint8Array, tokens: number): ExpertFrame {
  return {
    type: ExpertFrameType.dispatch, sequence: 5, layer, expert, tokens,
    hidden: rows.length / 4 / tokens, sameRows: false, failed: false, rows,
    body: new Uint8Array(0), maySum: false, best: false,
    takesSteps: false, added: [], rowType: RowType.f32,
  };
}

const floatsOf = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.slice().buffer);
const textOf = ({ body }: ExpertFrame): string => new TextDecoder().decode(body);
const dot = (matrix: Float32Array, row: number, x: ArrayLike<number>): number => {
  let sum = 0;
  for (let i = 0; i < x.length; ++i) sum += x[i]! * matrix[row * x.length + i]!;
  return sum;
};

describe.skipIf(!gpu)("neuron groups of a tab (needs build/release/weft)", () => {
  it("lie on the layer's grid, within half a step of their definition", async () => {
    const program = await programOf(kLayer);
    const op = program.ops.find((each): each is MoeExperts => each.kind === "moeExperts")!;
    const { step, limit } = op.grid;
    expect(step).toBeGreaterThan(0);
    const { columns } = op.in;
    const width = program.weights[op.down]!.shape[2]!;
    const gateUp = await readValues(program.weights[op.gateUp]!, source);
    const down = await readValues(program.weights[op.down]!, source);
    const rows = rowsOf(columns, 2);
    const asked = [3, 7].map((group) => dispatch(kLayer, group, rows, 2));
    const { results } = await host.run(asked);
    for (const { expert, rows: answer } of results) {
      for (let token = 0; token < 2; ++token) {
        const x = floatsOf(rows).subarray(token * columns, (token + 1) * columns);
        const hidden = Array.from({ length: width }, (_, i) => {
          const gate = dot(gateUp, 2 * expert * width + i, x);
          return (gate / (1 + Math.exp(-gate))) * dot(gateUp, (2 * expert + 1) * width + i, x);
        });
        for (let i = 0; i < columns; ++i) {
          const value = floatsOf(answer)[token * columns + i]!;
          expect(Number.isInteger(value / step) && Math.abs(value / step) <= limit).toBe(true);
          const exact = dot(down, expert * columns + i, hidden);
          expect(Math.abs(value - exact)).toBeLessThan(0.5 * step + 1e-5);
        }
      }
    }
  });

  it("come as one sum where they may, of the same rows alone", async () => {
    const { columns } = (await programOf(kLayer)).ops.find(
      (each): each is MoeExperts => each.kind === "moeExperts",
    )!.in;
    const rows = rowsOf(columns, 2);
    const asked = [0, 3, 4, 7].map((expert) => dispatch(kLayer, expert, rows, 2));
    const each = (await host.run(asked)).results;
    expect(each.length).toBe(4);
    const mayAdd = asked.map((frame) => ({ ...frame, maySum: true }));
    mayAdd.push(dispatch(kLayer, 1, rows, 2)); // not held
    mayAdd.push({ ...dispatch(kLayer, 7, rows.slice(), 2), maySum: true }); // rows of its own
    const { results } = await host.run(mayAdd);
    const heads = results.map(({ expert, added, failed }) => ({ expert, added, failed }));
    expect(heads).toEqual([
      { expert: 0, added: [3, 4, 7], failed: false },
      { expert: 1, added: [], failed: true },
      { expert: 7, added: [], failed: false },
    ]);
    // Sums on a grid are exact: from the back to the front they are the same.
    const sum = new Float64Array(2 * columns);
    for (const result of [...each].reverse()) {
      for (const [i, value] of floatsOf(result.rows).entries()) sum[i]! += value;
    }
    expect([...floatsOf(results[0]!.rows)]).toEqual([...sum]);
    expect(results[2]!.rows).toEqual(each[3]!.rows);
    // The same in three bytes each.
    const { step } = (await programOf(kLayer)).ops.find(
      (one): one is MoeExperts => one.kind === "moeExperts",
    )!.grid;
    const wanted = asked.map((frame) => ({ ...frame, maySum: true, takesSteps: true }));
    const [packed] = (await host.run(wanted)).results;
    expect(packed).toMatchObject({ expert: 0, added: [3, 4, 7], rowType: RowType.steps });
    const steps = Array.from({ length: 2 * columns }, (_, i) => {
      const [low, middle, high] = packed!.rows.subarray(3 * i, 3 * i + 3) as unknown as number[];
      return (low! << 8 | middle! << 16 | high! << 24) >> 8;
    });
    expect(steps.map((count) => count * step)).toEqual([...sum].map((value) => value + 0));
  });
});

describe.skipIf(!gpu)("ranges of products of a tab (needs build/release/weft)", () => {
  it("are columns of attention's products, beside groups in one message", async () => {
    const program = await programOf(kLayer);
    const products = findRanges(program);
    expect(products.length).toBeGreaterThan(0);
    for (const ranges of products) {
      const { product: { in: { columns: rowColumns }, weight: view }, columns } = ranges;
      const weight = await readValues(program.weights[view.weight]!, source);
      const rows = rowsOf(rowColumns, 2);
      const parts = partsOf(ranges);
      const asked = [3, ...parts].map((part) => dispatch(kLayer, part, rows, 2));
      const { results, error } = await host.run(asked);
      expect(error).toBe(null);
      expect(results.map(({ expert }) => expert)).toEqual([3, ...parts]);
      for (const { expert, hidden, rows: answer } of results.slice(1)) {
        expect(hidden).toBe(columns);
        const first = view.firstRow + firstColumnOf(ranges, expert);
        for (const [i, value] of floatsOf(answer).entries()) {
          const token = Math.floor(i / columns);
          const x = floatsOf(rows).subarray(token * rowColumns, (token + 1) * rowColumns);
          const exact = dot(weight, first + (i % columns), x);
          expect(Math.abs(value - exact)).toBeLessThan(1e-4);
        }
      }
    }
  });
});

describe.skipIf(!gpu)("ranges of an output head of a tab (needs build/release/weft)", () => {
  it("are the logits of their columns, or the two best of them", async () => {
    const program = await programOf(kHead());
    const { product, columns, count, total } = findHeadRanges(program)!;
    const weight = await readValues(program.weights[product.weight.weight]!, source);
    const rows = rowsOf(product.in.columns, 3);
    const asked = [5, 0].map((range) => dispatch(kHead(), range, rows, 3));
    const wanted = [...asked, ...asked.map((frame) => ({ ...frame, best: true }))];
    const { results, error } = await host.run(wanted);
    expect(error).toBe(null);
    expect(count).toBeGreaterThan(5);
    const single = dispatch(kHead(), 5, rows.slice(0, 4 * product.in.columns), 1);
    const alone = (await host.run([single])).results[0]!;
    expect(alone.hidden).toBe(columns);
    expect(alone.rows).toEqual(results[0]!.rows.slice(0, 4 * columns));
    for (const [place, range] of [5, 0].entries()) {
      const logits = floatsOf(results[place]!.rows);
      expect(results[place]!.hidden).toBe(columns);
      const first = Math.min(range * columns, total - columns);
      for (let row = 0; row < 3; ++row) {
        const x = floatsOf(rows).subarray(row * product.in.columns, (row + 1) * product.in.columns);
        const own = [...logits.subarray(row * columns, (row + 1) * columns)];
        for (const [i, logit] of own.entries()) {
          const exact = dot(weight, product.weight.firstRow + first + i, x);
          expect(Math.abs(logit - exact)).toBeLessThan(1e-3);
        }
        const ids = own.map((_, i) => i).sort((a, b) => own[b]! - own[a]! || a - b);
        const best = [...floatsOf(results[place + 2]!.rows).subarray(4 * row, 4 * row + 4)];
        expect(best).toEqual([own[ids[0]!], ids[0], own[ids[1]!], ids[1]]);
      }
    }
  });

  it("that are not held, or no ranges, are refused", async () => {
    const head = await programOf(kHead());
    const rows = rowsOf(findHeadRanges(head)!.product.in.columns, 1);
    const asked = [dispatch(kHead(), 1, rows, 1), { ...dispatch(kLayer, 0, rows, 1), best: true }];
    const { results } = await host.run(asked);
    expect(results.map(textOf)).toEqual([
      `Expert 1 of layer ${kHead()} is not held here.`,
      `Layer ${kLayer} is no output head: it has no best tokens.`,
    ]);
    const set = [{ layer: kHead(), experts: [99] }];
    await expect(host.install(set, () => undefined)).rejects.toThrow("has no range 99");
  });
});
