// The GPU buffers behind the pages: one pool a layer with attention, all of one capacity. Grows in
// steps; within its capacity nothing is created. Layout of a page: kv_pages.wgsl.
import { EngineError } from "../base/error.ts";
import type { Buffers } from "../gpu/buffers.ts";
import { Usage } from "../gpu/buffers.ts";
import type { Attention } from "../program/ir.ts";
import { kPagePositions } from "./pages.ts";
import type { PageCopy } from "./pages.ts";

const kMinPages = 8;
const kUsage = Usage.storage | Usage.copyFrom | Usage.copyTo;

export interface PageShape {
  readonly kvHeads: number;
  readonly headColumns: number;
  readonly valuesInKeys: boolean; // no values are kept beside the keys
  readonly isF32: boolean;
}

export function pageBytes({ kvHeads, headColumns, valuesInKeys, isF32 }: PageShape): number {
  const pairs = (headColumns + 1) >> 1;
  return (valuesInKeys ? 1 : 2) * kvHeads * pairs * kPagePositions * (isF32 ? 8 : 4);
}

interface Pool {
  readonly shape: PageShape;
  buffer: GPUBuffer;
}

export class Pools {
  readonly #buffers: Buffers;
  readonly #isF32: boolean;
  readonly #pools = new Map<number, Pool>();
  #capacity = kMinPages;
  #planned = 0;
  #bounce: GPUBuffer | null = null;

  constructor(buffers: Buffers, isF32: boolean) {
    this.#buffers = buffers;
    this.#isF32 = isF32;
  }

  get capacity(): number {
    return this.#capacity;
  }

  get layers(): number[] {
    return [...this.#pools.keys()];
  }

  buffer(layer: number): GPUBuffer | null {
    return this.#pools.get(layer)?.buffer ?? null;
  }

  shape(layer: number): PageShape | null {
    return this.#pools.get(layer)?.shape ?? null;
  }

  add(layer: number, { kvHeads, headColumns, valueColumns }: Attention): void {
    const shape = { kvHeads, headColumns, valuesInKeys: valueColumns > 0, isF32: this.#isF32 };
    const bytes = this.#capacity * pageBytes(shape);
    this.#checkBinding(bytes);
    this.#pools.set(layer, { shape, buffer: this.#make(layer, bytes) });
  }

  remove(layer: number): void {
    const pool = this.#pools.get(layer);
    if (!pool) return;
    this.#buffers.free(pool.buffer);
    this.#pools.delete(layer);
    if (this.#pools.size > 0 || !this.#bounce) return;
    this.#buffers.free(this.#bounce);
    this.#bounce = null;
  }

  #make(layer: number, bytes: number): GPUBuffer {
    return this.#buffers.make(`keys and values of layer ${layer}`, "kv", bytes, kUsage);
  }

  #checkBinding(bytes: number): void {
    if (bytes <= this.#buffers.gpu.limits.bindingBytes) return;
    throw new EngineError(
      "out_of_memory",
      `The keys and values of a layer would take ${bytes} bytes; this device binds at most ` +
        `${this.#buffers.gpu.limits.bindingBytes}.`,
    );
  }

  // So many pages are planned for: up to there a pool doubles, so that it seldom has to grow.
  plan(pages: number): void {
    this.#planned = pages;
  }

  // Room for at least `pages` pages: twice as many as there were below what is planned, else a
  // quarter more, where that fits. One layer is copied after the other, so that only one is there
  // twice. Throws EngineError (out_of_memory); layers that grew before are larger than the others
  // then, which does no harm.
  grow(pages: number): void {
    if (pages <= this.#capacity) return;
    const perPage = [...this.#pools.values()].reduce((sum, { shape }) => sum + pageBytes(shape), 0);
    const most = Math.max(0, ...[...this.#pools.values()].map(({ shape }) => pageBytes(shape)));
    const need = (capacity: number): number =>
      (capacity - this.#capacity) * perPage + this.#capacity * most;
    const wished = [Math.min(2 * this.#capacity, this.#planned), Math.ceil(1.25 * this.#capacity)];
    const bindable = Math.floor(this.#buffers.gpu.limits.bindingBytes / Math.max(most, 1));
    const fits = (capacity: number): boolean =>
      capacity >= pages && capacity <= bindable && this.#buffers.fits(need(capacity));
    const target = wished.find(fits) ?? pages;
    this.#checkBinding(target * most);
    for (const [layer, pool] of this.#pools) {
      const bytes = target * pageBytes(pool.shape);
      if (pool.buffer.size >= bytes) continue;
      const larger = this.#make(layer, bytes);
      const { device } = this.#buffers.gpu;
      const encoder = device.createCommandEncoder();
      encoder.copyBufferToBuffer(pool.buffer, 0, larger, 0, pool.buffer.size);
      device.queue.submit([encoder.finish()]);
      this.#buffers.free(pool.buffer);
      pool.buffer = larger;
    }
    this.#capacity = target;
  }

  // Pages may not be copied within one buffer directly.
  copy(encoder: GPUCommandEncoder, copies: readonly PageCopy[]): void {
    if (copies.length === 0) return;
    const most = Math.max(...[...this.#pools.values()].map(({ shape }) => pageBytes(shape)));
    if (!this.#bounce || this.#bounce.size < most) {
      if (this.#bounce) this.#buffers.free(this.#bounce);
      this.#bounce = this.#buffers.make("page on its way", "kv", most, kUsage);
    }
    for (const { shape, buffer } of this.#pools.values()) {
      const bytes = pageBytes(shape);
      for (const { from, to } of copies) {
        encoder.copyBufferToBuffer(buffer, from * bytes, this.#bounce, 0, bytes);
        encoder.copyBufferToBuffer(this.#bounce, 0, buffer, to * bytes, bytes);
      }
    }
  }
}
