// What tuning times: products of a matrix of random q4 (or f32) weights in several slabs, which
// together are larger than caches where memory allows. A sample is a run of dispatches over one
// slab after another, timed by the device where it can, else by the clock.
import { Buffers, Usage } from "../gpu/buffers.ts";
import type { Gpu } from "../gpu/open.ts";
import { Pipelines } from "../gpu/pipelines.ts";
import type { Arithmetic } from "../kernels/product/arithmetic.ts";
import { kNone } from "../kernels/common/op.ts";
import { RowsAt } from "../kernels/common/numbers.ts";
import { productParams } from "../kernels/product/ops.ts";
import { makeDispatches } from "../dispatch/dispatch.ts";
import type { Dispatch, Shared } from "../dispatch/dispatch.ts";
import { padded } from "../dispatch/layout.ts";
import { partsOf, slabDrafts } from "../dispatch/products.ts";
import type { BoundSlab } from "../dispatch/products.ts";
import { DType } from "../program/ir.ts";
import { pieceWordsOf } from "../weights/matrix.ts";
import type { Sample } from "./compare.ts";
import { GpuTimer } from "./gpuTimer.ts";
import type { Rig } from "./tune.ts";

const kColumns = 4096;
const kBlocks = kColumns / 32;
const kGroups = { [DType.q4]: 512, [DType.f32]: 128 }; // of 8 rows; 8 and 16 MiB
const kMaxBytes = 80 << 20;
const kRandomBytes = 1 << 20;
const kMaxRows = 64;
const kMaxDispatches = 1024;
const kMinDispatches = 2; // of several rows one quantises, one multiplies
const kUsage = Usage.storage | Usage.copyFrom | Usage.copyTo;

interface Slab {
  readonly data: GPUBuffer;
  readonly scale: GPUBuffer | null;
}

export class ProductRig implements Rig {
  readonly #gpu: Gpu;
  readonly #buffers: Buffers;
  readonly #pipelines: Pipelines;
  readonly #timer: GpuTimer;
  readonly #dtype: typeof DType.q4 | typeof DType.f32;
  readonly #shared: Shared;
  readonly #vectors: GPUBuffer;
  readonly #slabs: readonly Slab[];
  #dispatches = new Map<string, Promise<readonly Dispatch[] | null>>();

  get #groups(): number {
    return kGroups[this.#dtype];
  }

  // The rig may take `limitBytes`; it takes less where that is enough.
  constructor(gpu: Gpu, isExact: boolean, limitBytes: number) {
    this.#gpu = gpu;
    this.#buffers = new Buffers(gpu, 0, () => 0);
    this.#pipelines = Pipelines.of(gpu.device);
    this.#timer = new GpuTimer(gpu);
    this.#dtype = isExact ? DType.f32 : DType.q4;
    const make = (label: string, bytes: number): GPUBuffer =>
      this.#buffers.make(label, "scratch", bytes, kUsage);
    this.#shared = {
      step: make("tuning: rows", 64),
      act: make("tuning: activations", 4 * kMaxRows * 2 * padded(kColumns)),
      aux: make("tuning: integers", 16 * kMaxRows * (5 * kBlocks + 1)),
      unusedRead: make("tuning: unused", 16),
      unusedWrite: make("tuning: unused", 16),
    };
    this.#vectors = make("tuning: norm", 4 * kColumns);
    this.#slabs = this.#makeSlabs(limitBytes, make);
  }

  #makeSlabs(limitBytes: number, make: (label: string, bytes: number) => GPUBuffer): Slab[] {
    const dataBytes = 8 * this.#groups * kBlocks * 4 * pieceWordsOf(this.#dtype) * 4;
    const scaleBytes = this.#dtype === DType.q4 ? this.#groups * kBlocks * 16 : 0;
    const most = Math.floor(Math.min(limitBytes, kMaxBytes) / (dataBytes + scaleBytes));
    const { device } = this.#gpu;
    const random = make("tuning: random", kRandomBytes);
    device.queue.writeBuffer(random, 0, randomBytes());
    const encoder = device.createCommandEncoder();
    const slabs = Array.from({ length: Math.max(1, most) }, () => {
      const slab = {
        data: make("tuning: weights", dataBytes),
        scale: scaleBytes > 0 ? make("tuning: scales", scaleBytes) : null,
      };
      for (const buffer of [slab.data, slab.scale]) {
        for (let at = 0; buffer && at < buffer.size; at += kRandomBytes) {
          const size = Math.min(kRandomBytes, buffer.size - at);
          encoder.copyBufferToBuffer(random, 0, buffer, at, size);
        }
      }
      return slab;
    });
    device.queue.submit([encoder.finish()]);
    return slabs;
  }

  async warmUp(first: Arithmetic, ms: number): Promise<void> {
    const sample = await this.sampleOf(first, 1);
    const end = performance.now() + ms;
    while (sample && performance.now() < end) await sample();
  }

  async sampleOf(arithmetic: Arithmetic, rows: number): Promise<Sample | null> {
    const key = JSON.stringify(arithmetic);
    const made = this.#dispatches.get(key) ?? this.#make(key, arithmetic).catch(() => null);
    this.#dispatches.set(key, made);
    const dispatches = await made;
    if (!dispatches) return null;
    const { queue } = this.#gpu.device;
    const chosen = dispatches.filter(({ when }) => when({ rows, chunks: 1, runs: 1 }));
    const run = async (count: number): Promise<number> => {
      queue.writeBuffer(this.#shared.step, 4 * RowsAt.body, Uint32Array.of(rows));
      return (await this.#timer.time((pass) => encode(pass, chosen, count, rows))) / count;
    };
    const count = await countFor(run, this.#timer.sampleMs, chosen.length);
    return () => run(count);
  }

  async #make(label: string, arithmetic: Arithmetic): Promise<readonly Dispatch[]> {
    const parts = partsOf({ dtype: this.#dtype, arithmetic }, kColumns, this.#groups);
    const input = { base: 0, stride: kColumns };
    const out = { base: kMaxRows * kColumns, stride: 8 * this.#groups };
    const params = productParams({
      rowsAt: RowsAt.body,
      in: input,
      columns: kColumns,
      blocks: kBlocks,
      groupCount: this.#groups,
      rowFirst: 0,
      zeroBase: kNone,
      normBase: 0,
      epsilon: 1e-6,
      activation: 0,
      residual: null,
      residual2: null,
      roundKind: 0,
      segments: [{ first: 0, end: 8 * this.#groups, out, bias: kNone, biasUp: kNone }],
      experts: null,
      planesBase: 0,
    });
    const slabs = this.#slabs.map(
      ({ data, scale }): BoundSlab => ({
        groupCount: this.#groups,
        params,
        bound: { vectors: this.#vectors, data, ...(scale ? { scale } : {}) },
      }),
    );
    const flags = { withNorm: true, paired: false, experts: false, biased: false };
    const drafts = slabDrafts({ dtype: this.#dtype, arithmetic, parts, ...flags }, slabs);
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
