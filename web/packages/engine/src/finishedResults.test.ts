// What becomes of a result right behind the operation that makes it (gates, sums, factors) is part
// of its dispatch, unless something else reads the result. Either way gives the same bits, in one
// row and in many.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";

import type { OpSchema } from "../gen/program/ops_pb.ts";
import { fuse } from "./dispatch/fuse.ts";
import { scheduled } from "./dispatch/schedule.ts";
import type { Arithmetic } from "./kernels/product/arithmetic.ts";
import { decodeProgram } from "./program/decode.ts";
import type { Program } from "./program/ir.ts";
import { weightOf } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { ToyModel } from "./test/toyModel.ts";
import type { ToyLayer } from "./test/toyModel.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const only = { first: 1, end: 2 };
const kHidden = 64;
const [kExperts, kTopK, kWidth] = [8, 2, 24];

type OpInit = MessageInitShape<typeof OpSchema>;
type Kind = NonNullable<OpInit["kind"]>;

const kRouting = { experts: kExperts, topK: kTopK };
type Weights = ReturnType<typeof weightOf>[];

// Operations one after the other, each into a buffer of its own, which it gives. `isSeen`: what
// lies between two of them that may be one dispatch is read by an operation more.
class Layer {
  readonly buffers: number[] = [kHidden];
  readonly weights: Weights = [];
  readonly ops: OpInit[] = [];
  readonly #isSeen: boolean;

  constructor(isSeen: boolean) {
    this.#isSeen = isSeen;
  }

  buffer(columns = kHidden): number {
    return this.buffers.push(columns) - 1;
  }

  view(id: number): { buffer: number; firstColumn: number; columns: number } {
    return { buffer: id, firstColumn: 0, columns: this.buffers[id]! };
  }

  weight(kind: string, shape: readonly number[], offset = 0): number {
    const seed = 10 + this.weights.length;
    return this.weights.push(weightOf({ kind, shape, seed, offset })) - 1;
  }

  push(kind: Kind): void {
    this.ops.push({ kind });
  }

  see(id: number): number {
    if (this.#isSeen) {
      const value = { in: this.view(id), out: this.view(this.buffer(this.buffers[id])), factor: 2 };
      this.push({ case: "scale", value });
    }
    return id;
  }

  product(from: number, rows: number, kind = "q4"): number {
    const out = this.buffer(rows);
    const weight = { weight: this.weight(kind, [rows, this.buffers[from]!]), firstRow: 0, rows };
    this.push({ case: "matmul", value: { in: this.view(from), out: this.view(out), weight } });
    return out;
  }

  norm(from: number): number {
    const out = this.buffer();
    const weight = this.weight("f32", [kHidden], 1);
    const value = { in: this.view(from), out: this.view(out), weight, epsilon: 1e-5 };
    this.push({ case: "rmsNorm", value });
    return out;
  }

  sum(a: number, b: number): number {
    const out = this.buffer();
    this.push({ case: "add", value: { a: this.view(a), b: this.view(b), out: this.view(out) } });
    return out;
  }

  scale(from: number, factor: number): number {
    const out = this.buffer();
    this.push({ case: "scale", value: { in: this.view(from), out: this.view(out), factor } });
    return out;
  }

  gate(from: number, by: number, kind: number): number {
    const out = this.buffer();
    const value = { in: this.view(from), gate: this.view(by), out: this.view(out), kind };
    this.push({ case: "gate", value });
    return out;
  }

  attention(from: number): number {
    const [q, k, v] = [kHidden, 32, 32].map((rows) => this.view(this.product(from, rows)));
    const out = this.buffer();
    const heads = { heads: 4, kvHeads: 2, headColumns: 16, scale: 0.25 };
    this.push({ case: "attention", value: { q: q!, k: k!, v: v!, out: this.view(out), ...heads } });
    return out;
  }

  // Heads of 16 columns, each normed.
  heads(from: number): number {
    const out = this.buffer();
    const normWeight = this.weight("f32", [16], 1);
    const of = { heads: 4, headColumns: 16, epsilon: 1e-5, normWeight };
    this.push({ case: "qkNormRope", value: { in: this.view(from), out: this.view(out), ...of } });
    return out;
  }

  active(gate: number, up: number): number {
    const out = this.buffer();
    const value = { gate: this.view(gate), up: this.view(up), out: this.view(out), kind: 0 };
    this.push({ case: "gatedActivation", value });
    return out;
  }

  experts(from: number): number {
    const [logits, route] = [this.product(from, kExperts, "f16"), this.buffer(2 * kTopK)];
    const choice = { logits: this.view(logits), out: this.view(route), kind: 1 };
    this.push({ case: "moeRoute", value: { ...choice, ...kRouting, groups: 1, scale: 1 } });
    const gateUp = this.weight("q4", [kExperts, 2 * kWidth, kHidden]);
    const down = this.weight("q4", [kExperts, kHidden, kWidth]);
    const out = this.buffer();
    const views = { in: this.view(from), route: this.view(route), out: this.view(out) };
    this.push({ case: "moeExperts", value: { ...views, ...kRouting, kind: 0, gateUp, down } });
    return out;
  }
}

// A layer with everything that a result may go through: a gate behind attention, a norm, a sum and
// a factor, heads through an activation, a product through a gate of one column and into two sums,
// with a factor between, experts into a sum.
function layerOf(isSeen: boolean): ToyLayer {
  const layer = new Layer(isSeen);
  const first = layer.norm(0);
  const gate = layer.product(first, kHidden);
  const opened = layer.gate(layer.see(layer.attention(first)), gate, 1);
  const stream = layer.sum(0, layer.product(opened, kHidden));
  const plain = layer.product(layer.norm(stream), kHidden);
  const added = layer.see(layer.sum(stream, layer.see(layer.norm(plain))));
  const scaled = layer.scale(added, 0.75);
  const active = layer.active(stream, layer.see(layer.heads(scaled)));
  const opening = layer.product(active, 1, "f16");
  const shared = layer.see(layer.product(active, kHidden));
  const half = layer.see(layer.gate(shared, opening, 2));
  const once = layer.see(layer.sum(scaled, half));
  const twice = layer.sum(stream, layer.see(layer.scale(once, 0.3)));
  const output = layer.sum(twice, layer.see(layer.experts(twice)));
  const { buffers, weights, ops } = layer;
  return { buffers, weights, ops, input: 0, output };
}

const modelOf = (isSeen: boolean): ToyModel => new ToyModel(new Map([[1, layerOf(isSeen)]]));

const programOf = (isSeen: boolean): Program =>
  scheduled(decodeProgram(modelOf(isSeen).programBytes(1)));

// The rows of steps of so many.
async function run(isSeen: boolean, tuning: Arithmetic, counts: readonly number[]) {
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, residualDtype: "f16", tuning });
  await engine.load(only, modelOf(isSeen));
  const rows: number[] = [];
  let firstPosition = 0;
  for (const count of counts) {
    const output = { kind: "hidden" } as const;
    const { hidden } = await engine.step({
      layers: only,
      runs: [{ session: 1, generation: 0, firstPosition, count, output }],
      tokenIds: new Int32Array(0),
      hidden: Float32Array.from({ length: count * kHidden }, (_, i) =>
        Math.sin((i + firstPosition * kHidden) * 0.73),
      ),
    });
    rows.push(...hidden);
    firstPosition += count;
  }
  engine.freeBuffers();
  return rows;
}

const arithmetic = (of: Partial<Arithmetic>): Arithmetic => ({
  products: "f32", lanes: "shared", outputs: 16, tileRows: 4, ...of,
});
const kArithmetics: readonly Arithmetic[] = [
  arithmetic({ lanes: "serial" }),
  arithmetic({}),
  ...(gpu?.hasIntegerDots ? [arithmetic({ products: "int16" })] : []),
];

describe("results that nothing else reads", () => {
  it("go through what is behind them in one dispatch", () => {
    const kinds = fuse(programOf(false)).map(({ kind }) => kind);
    expect(kinds).toEqual([
      "product", "heads", "attention", "product", "product", "normed", "heads", "product",
      "product", "product", "single", "experts",
    ]);
    const apart = fuse(programOf(true)).map((step) =>
      step.kind === "single" ? step.op.kind : step.kind);
    const behind = apart.filter((kind) => ["gate", "add", "gatedActivation"].includes(kind));
    expect(behind.length).toBe(7);
  });
});

describe.skipIf(!gpu)("results on the GPU", { timeout: 600_000 }, () => {
  for (const tuning of kArithmetics) {
    it(`have the same bits in one dispatch: ${tuning.products} ${tuning.lanes}`, async () => {
      const counts = [1, 6, 40, 1];
      const together = await run(false, tuning, counts);
      expect(together.every(Number.isFinite)).toBe(true);
      expect(together).toEqual(await run(true, tuning, counts));
      expect(together).toEqual(await run(false, tuning, [20, 1, 1, 26]));
      expect(together.slice(0, kHidden)).not.toEqual(together.slice(kHidden, 2 * kHidden));
    });
  }
});
