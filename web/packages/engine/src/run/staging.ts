// A ring of buffers through which results come back: made once, mapped in turn.
import type { Buffers } from "../gpu/buffers.ts";
import { kMapRead, Usage } from "../gpu/buffers.ts";
import type { Poker } from "./poker.ts";

const kMinBytes = 4096;

export class Staging {
  readonly #buffers: Buffers;
  readonly #poker: Poker;
  readonly #idle: GPUBuffer[] = [];

  constructor(buffers: Buffers, poker: Poker) {
    this.#buffers = buffers;
    this.#poker = poker;
  }

  // A buffer of at least this size, the caller's until it is read.
  take(byteCount: number): GPUBuffer {
    const index = this.#idle.findIndex(({ size }) => size >= byteCount);
    if (index >= 0) return this.#idle.splice(index, 1)[0]!;
    const small = this.#idle.pop();
    if (small) this.#buffers.free(small);
    const size = 2 ** Math.ceil(Math.log2(Math.max(kMinBytes, byteCount)));
    return this.#buffers.make("results", "scratch", size, Usage.mapRead | Usage.copyTo);
  }

  // A taken buffer that will not be read after all.
  giveBack(buffer: GPUBuffer): void {
    this.#idle.push(buffer);
  }

  // The first bytes of a taken buffer, which goes back into the ring.
  async read(buffer: GPUBuffer, byteCount: number): Promise<ArrayBuffer> {
    try {
      await this.#poker.during(buffer.mapAsync(kMapRead, 0, byteCount));
      const bytes = buffer.getMappedRange(0, byteCount).slice(0);
      buffer.unmap();
      return bytes;
    } finally {
      this.#idle.push(buffer);
    }
  }
}
