// One of a weight's arrays (data, scales, zero points) as a run of bytes: the concatenation of its
// parts, read piece by piece, so that no tensor ever lies in JS memory whole.
import type { Part } from "../program/ir.ts";
import type { WeightSource } from "../stage/stageEngine.ts";

export class WeightArray {
  readonly #source: WeightSource;
  readonly #parts: readonly (Part & { begin: number })[];

  constructor(source: WeightSource, parts: readonly Part[]) {
    this.#source = source;
    let begin = 0;
    this.#parts = parts.map((part) => {
      const placed = { ...part, begin };
      begin += part.byteCount;
      return placed;
    });
  }

  // Bytes [offset, offset + byteCount) of the array in pieces of multiples of 4 bytes (but the
  // last), each good until the next one is asked for.
  async *pieces(offset: number, byteCount: number): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    const whole = this.#wholeIn(offset, byteCount);
    const at = whole ? whole.offset + offset - whole.begin : 0;
    const pieces =
      whole && at % 4 === 0 ? this.#source.readPieces?.(whole.digest, at, byteCount) : undefined;
    if (pieces) yield* pieces;
    else yield await this.read(offset, byteCount);
  }

  #wholeIn(offset: number, byteCount: number): (Part & { begin: number }) | undefined {
    return this.#parts.find(
      ({ begin, byteCount: length }) => begin <= offset && offset + byteCount <= begin + length,
    );
  }

  // Bytes [offset, offset + byteCount) of the array.
  async read(offset: number, byteCount: number): Promise<Uint8Array<ArrayBuffer>> {
    const whole = this.#wholeIn(offset, byteCount);
    if (whole) {
      const at = whole.offset + offset - whole.begin;
      return await this.#source.readRange(whole.digest, at, byteCount);
    }
    const out = new Uint8Array(byteCount);
    for (const part of this.#parts) {
      const first = Math.max(offset, part.begin);
      const end = Math.min(offset + byteCount, part.begin + part.byteCount);
      if (first >= end) continue;
      const at = part.offset + first - part.begin;
      out.set(await this.#source.readRange(part.digest, at, end - first), first - offset);
    }
    return out;
  }
}
