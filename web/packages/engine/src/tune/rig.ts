// What tuning times: products of a matrix of random q4 (or f32, or q4s) weights in several slabs,
// which together are larger than caches where memory allows. A sample is a run of dispatches over
// one slab after another, timed by the device where it can, else by the clock.
import { Buffers, kMapRead, Usage } from "../gpu/buffers.ts";
import type { Gpu } from "../gpu/open.ts";
import { Pipelines } from "../gpu/pipelines.ts";
import type { Arithmetic } from "../kernels/product/arithmetic.ts";
import { kNone } from "../kernels/common/op.ts";
import { RowsAt } from "../kernels/common/numbers.ts";
import { productParams } from "../kernels/product/ops.ts";
import { everyUnitsTile } from "../kernels/product/variants.ts";
import type { MatMulTile } from "../kernels/product/variants.ts";
import { makeDispatches } from "../dispatch/dispatch.ts";
import type { Dispatch, Shared } from "../dispatch/dispatch.ts";
import { padded } from "../dispatch/layout.ts";
import { kMatMulFrom, partsOf, slabDrafts } from "../dispatch/products.ts";
import type { BoundSlab } from "../dispatch/products.ts";
import { DType } from "../program/ir.ts";
import { pieceWordsOf } from "../weights/matrix.ts";
import type { RigForm } from "./candidates.ts";
import type { Sample } from "./compare.ts";
import { GpuTimer } from "./gpuTimer.ts";
import type { Rig } from "./tune.ts";

const kColumns = 4096;
const kBlocks = kColumns / 32;
const kRandomBytes = 1 << 20;
const kMaxRows = 512;
const kMostOutputs = 8192; // of the matrices below
const kMaxDispatches = 1024;
const kMinDispatches = 2; // of several rows one quantises, one multiplies
const kUsage = Usage.storage | Usage.copyFrom | Usage.copyTo;

// A matrix of a form. What is bound by memory wants more bytes than caches hold.
interface RigMatrix {
  readonly dtype: number;
  readonly groups: number; // of 8 rows
  readonly scaleBytes: number;
  readonly zeroBase: number;
  readonly mostBytes: number; // of all slabs
}

const kScaleBytes = 512 * kBlocks * 16; // of two bytes a block's row
const kMatrices = {
  q4: {
    dtype: DType.q4,
    groups: 512,
    scaleBytes: kScaleBytes,
    zeroBase: kNone,
    mostBytes: 80 << 20,
  },
  f32: { dtype: DType.f32, groups: 128, scaleBytes: 0, zeroBase: kNone, mostBytes: 80 << 20 },
  // Multipliers, then scales of superblocks, which are an eighth as many. With so many groups every
  // tile of matrix units is for some number of rows.
  q4s: {
    dtype: DType.q4s,
    groups: 1024,
    scaleBytes: 2 * kScaleBytes + kScaleBytes / 4,
    zeroBase: kScaleBytes / 2,
    mostBytes: 40 << 20,
  },
} as const satisfies Record<string, RigMatrix>;

interface Slab {
  readonly data: GPUBuffer;
  readonly scale: GPUBuffer | null;
}

export class ProductRig implements Rig {
  readonly #gpu: Gpu;
  readonly #buffers: Buffers;
  readonly #pipelines: Pipelines;
  readonly #timer: GpuTimer;
  readonly #isExact: boolean;
  readonly #limitBytes: number;
  readonly #shared: Shared;
  readonly #vectors: GPUBuffer;
  readonly #random: GPUBuffer;
  readonly #slabs = new Map<RigForm, readonly Slab[]>();
  #dispatches = new Map<string, Promise<readonly Dispatch[] | null>>();

  // The rig may take `limitBytes` for the weights of a form; it takes less where that is enough.
  constructor(gpu: Gpu, isExact: boolean, limitBytes: number) {
    this.#gpu = gpu;
    this.#buffers = new Buffers(gpu, 0, () => 0);
    this.#pipelines = Pipelines.of(gpu.device);
    this.#timer = new GpuTimer(gpu);
    this.#isExact = isExact;
    this.#limitBytes = limitBytes;
    this.#shared = {
      step: this.#make("tuning: rows", 64),
      act: this.#make("tuning: activations", 4 * kMaxRows * (padded(kColumns) + kMostOutputs)),
      aux: this.#make("tuning: integers", 16 * kMaxRows * (5 * kBlocks + 1)),
      unusedRead: this.#make("tuning: unused", 16),
      unusedWrite: this.#make("tuning: unused", 16),
    };
    this.#vectors = this.#make("tuning: norm", 4 * kColumns);
    this.#random = this.#make("tuning: random", kRandomBytes);
    gpu.device.queue.writeBuffer(this.#random, 0, randomBytes());
    this.#fill([this.#vectors, this.#shared.act]);
  }

  #make(label: string, bytes: number): GPUBuffer {
    return this.#buffers.make(label, "scratch", bytes, kUsage);
  }

  #fill(buffers: readonly GPUBuffer[]): void {
    const encoder = this.#gpu.device.createCommandEncoder();
    for (const buffer of buffers) {
      for (let at = 0; at < buffer.size; at += kRandomBytes) {
        const size = Math.min(kRandomBytes, buffer.size - at);
        encoder.copyBufferToBuffer(this.#random, 0, buffer, at, size);
      }
    }
    this.#gpu.device.queue.submit([encoder.finish()]);
  }

  #matrixOf(form: RigForm): RigMatrix {
    if (form === "superblocks") return kMatrices.q4s;
    return this.#isExact ? kMatrices.f32 : kMatrices.q4;
  }

  #slabsOf(form: RigForm): readonly Slab[] {
    const known = this.#slabs.get(form);
    if (known) return known;
    const { dtype, groups, scaleBytes, mostBytes } = this.#matrixOf(form);
    const dataBytes = 8 * groups * kBlocks * 4 * pieceWordsOf(dtype) * 4;
    const most = Math.floor(Math.min(this.#limitBytes, mostBytes) / (dataBytes + scaleBytes));
    const slabs = Array.from({ length: Math.max(1, most) }, () => ({
      data: this.#make("tuning: weights", dataBytes),
      scale: scaleBytes > 0 ? this.#make("tuning: scales", scaleBytes) : null,
    }));
    this.#fill(slabs.flatMap(({ data, scale }) => (scale ? [data, scale] : [data])));
    this.#slabs.set(form, slabs);
    return slabs;
  }

  async warmUp(first: Arithmetic, ms: number): Promise<void> {
    const sample = await this.sampleOf(first, 1, "usual");
    const end = performance.now() + ms;
    while (sample && performance.now() < end) await sample();
  }

  async sampleOf(arithmetic: Arithmetic, rows: number, form: RigForm): Promise<Sample | null> {
    const dispatches = await this.#dispatchesOf(arithmetic, form);
    if (!dispatches) return null;
    const isRow = arithmetic.rowWalk && rows === 1;
    if (isRow && !(await this.#givesSameRow(arithmetic, form))) return null;
    if (arithmetic.units && !(await this.#givesSameBits(arithmetic, form))) return null;
    const chosen = dispatches.filter(({ when }) => when({ rows, chunks: 1, runs: 1 }));
    const run = async (count: number): Promise<number> => {
      this.#tellRows(rows);
      return (await this.#timer.time((pass) => encode(pass, chosen, count, rows))) / count;
    };
    const count = await countFor(run, this.#timer.sampleMs, chosen.length);
    return () => run(count);
  }

  #tellRows(rows: number): void {
    const words = Uint32Array.of(rows);
    this.#gpu.device.queue.writeBuffer(this.#shared.step, 4 * RowsAt.body, words);
  }

  async #givesSameRow(arithmetic: Arithmetic, form: RigForm): Promise<boolean> {
    const plain = await this.#outputsOf({ ...arithmetic, rowWalk: "quarters" }, 1, form);
    const own = await this.#outputsOf(arithmetic, 1, form);
    return plain !== null && own !== null && plain.every((word, i) => word === own[i]);
  }

  // Matrix units are believed on a device that has shown their bits to be those of its products
  // without them, in each of their tiles.
  async #givesSameBits(arithmetic: Arithmetic, form: RigForm): Promise<boolean> {
    const tiles = everyUnitsTile(arithmetic, kMatMulFrom);
    for (const { from } of tiles) {
      const rows = from + 17;
      const plain = await this.#outputsOf({ ...arithmetic, units: false }, rows, form);
      const own = await this.#outputsOf(arithmetic, rows, form, tiles);
      if (!plain || !own || !plain.every((word, i) => word === own[i])) return false;
    }
    return true;
  }

  // The bits of the products of the first slab.
  async #outputsOf(
    arithmetic: Arithmetic,
    rows: number,
    form: RigForm,
    tiles?: readonly MatMulTile[],
  ): Promise<Uint32Array<ArrayBuffer> | null> {
    const dispatches = await this.#dispatchesOf(arithmetic, form, tiles);
    if (!dispatches) return null;
    const { device } = this.#gpu;
    const begin = 4 * kMaxRows * kColumns;
    const size = 4 * rows * 8 * this.#matrixOf(form).groups;
    const usage = Usage.mapRead | Usage.copyTo;
    const result = device.createBuffer({ label: "tuning: outputs", size, usage });
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(this.#shared.act, begin, size);
    const pass = encoder.beginComputePass();
    const isAsked = ({ when }: Dispatch): boolean => when({ rows, chunks: 1, runs: 1 });
    const first = dispatches.filter(isAsked).slice(0, 2); // one quantises
    encode(pass, first, first.length, rows);
    pass.end();
    encoder.copyBufferToBuffer(this.#shared.act, begin, result, 0, size);
    this.#tellRows(rows);
    device.queue.submit([encoder.finish()]);
    await result.mapAsync(kMapRead);
    const words = new Uint32Array(result.getMappedRange().slice(0));
    result.destroy();
    return words;
  }

  #dispatchesOf(
    arithmetic: Arithmetic,
    form: RigForm,
    tiles?: readonly MatMulTile[],
  ): Promise<readonly Dispatch[] | null> {
    const key = `${form} ${JSON.stringify(arithmetic)}${tiles ? " every tile" : ""}`;
    const compiled = (): Promise<readonly Dispatch[] | null> =>
      this.#compile(key, arithmetic, form, tiles).catch(() => null);
    const made = this.#dispatches.get(key) ?? compiled();
    this.#dispatches.set(key, made);
    return made;
  }

  async #compile(
    label: string,
    arithmetic: Arithmetic,
    form: RigForm,
    tiles?: readonly MatMulTile[],
  ): Promise<readonly Dispatch[]> {
    const { dtype, groups, zeroBase } = this.#matrixOf(form);
    const parts = partsOf({ dtype, arithmetic }, kColumns, groups);
    const input = { base: 0, stride: kColumns };
    const out = { base: kMaxRows * kColumns, stride: 8 * groups };
    const params = productParams({
      rowsAt: RowsAt.body,
      in: input,
      columns: kColumns,
      blocks: kBlocks,
      groupCount: groups,
      rowFirst: 0,
      zeroBase,
      normBase: 0,
      epsilon: 1e-6,
      activation: 0,
      residual: null,
      residual2: null,
      roundKind: 0,
      segments: [{ first: 0, end: 8 * groups, out, bias: kNone, biasUp: kNone }],
      experts: null,
      planesBase: 0,
    });
    const slabs = this.#slabsOf(form).map(
      ({ data, scale }): BoundSlab => ({
        groupCount: groups,
        params,
        bound: { vectors: this.#vectors, data, ...(scale ? { scale } : {}) },
      }),
    );
    const flags = { withNorm: true, paired: false, experts: false, biased: false };
    const of = { dtype, arithmetic, parts, ...flags, blocks: kBlocks };
    const drafts = slabDrafts(of, slabs, tiles);
    const made = await makeDispatches(this.#buffers, this.#pipelines, this.#shared, label, drafts);
    return made.dispatches;
  }

  free(): void {
    this.#timer.free();
    this.#buffers.freeAll();
  }
}

function encode(
  pass: GPUComputePassEncoder,
  dispatches: readonly Dispatch[],
  count: number,
  rows: number,
): void {
  for (let i = 0; i < count; ++i) {
    const { pipeline, group, grid } = dispatches[i % dispatches.length]!;
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(...grid({ rows, chunks: 1, runs: 1 }));
  }
}

// Finds as many dispatches as take the time of a sample: whole rounds over the slabs, if possible.
// More and more are tried, because too few of them are not seen by rounded timestamps.
export async function countFor(
  run: (count: number) => Promise<number>,
  sampleMs: number,
  slabs: number,
): Promise<number> {
  let count = kMinDispatches;
  let ms = count * (await run(count));
  while (ms < sampleMs / 2 && count < kMaxDispatches) {
    count = Math.min(4 * count, kMaxDispatches);
    ms = count * (await run(count));
  }
  const most = Math.floor(Math.min((count * sampleMs) / Math.max(ms, 1e-3), kMaxDispatches));
  return most >= slabs ? most - (most % slabs) : Math.max(kMinDispatches, most);
}

// Finite in f32 and f16, and nothing that a device could compress.
function randomBytes(): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(kRandomBytes / 4);
  let state = 0x9e3779b9;
  for (let i = 0; i < words.length; ++i) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    words[i] = (state ^ (state >>> 15)) & 0x3bff3bff;
  }
  return new Uint8Array(words.buffer);
}
