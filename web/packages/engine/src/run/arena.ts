// The parameters of a step in one buffer, written by one call: counts, rows, page numbers,
// rotations. Words (common.wgsl):
//   0 rows of the body   1 where rotations begin   2 rotation pairs of a row   3 chunks (split)
//   4 where the argmax's token is kept, or none    5 rows of the head
//   6 where the scales of the head's rows begin (scaled_sum.wgsl)
//   8 + 4 i  row i: token, position, where its session's pages begin, source row of head row i
//   pages of the sessions, then rotations, then scales
import type { Buffers } from "../gpu/buffers.ts";
import { Usage } from "../gpu/buffers.ts";
import { kNone } from "../kernels/common/op.ts";
import type { Ropes } from "./ropes.ts";

const kRowsBegin = 8;
const kMinWords = 1 << 14;

// A token that the last argmax chose and only the GPU knows.
export const kChainedToken = -1;

export interface ArenaRow {
  readonly token: number;
  readonly position: number;
  readonly session: number;
}

export interface ArenaContents {
  readonly rows: readonly ArenaRow[];
  readonly headRows: readonly number[]; // indices of `rows`, or any, for the head's rows
  readonly pages: ReadonlyMap<number, readonly number[]>; // of the rows' sessions
  readonly scales?: readonly number[]; // of the head's rows: 1 / temperature
  readonly chunks: number;
  readonly historySlot: number | null;
}

export class Arena {
  readonly #buffers: Buffers;
  #buffer: GPUBuffer;
  #words: Uint32Array<ArrayBuffer>;
  #floats: Float32Array<ArrayBuffer>;

  constructor(buffers: Buffers) {
    this.#buffers = buffers;
    this.#words = new Uint32Array(kMinWords);
    this.#floats = new Float32Array(this.#words.buffer);
    this.#buffer = this.#make(kMinWords);
  }

  get buffer(): GPUBuffer {
    return this.#buffer;
  }

  #make(words: number): GPUBuffer {
    return this.#buffers.make("step", "scratch", 4 * words, Usage.storage | Usage.copyTo);
  }

  static words({ rows, headRows, pages }: ArenaContents, ropeColumns: number): number {
    let pageCount = 0;
    for (const list of pages.values()) pageCount += list.length;
    const rowCount = Math.max(rows.length, headRows.length);
    const rotations = 2 * ropeColumns * rows.length;
    return kRowsBegin + 4 * rowCount + pageCount + rotations + headRows.length;
  }

  static oneRowWords(pageCount: number, ropeColumns: number): number {
    return kRowsBegin + 4 + pageCount + 2 * ropeColumns + 1;
  }

  // Makes room. True when the buffer is another one now, which bind groups must follow.
  reserve(words: number): boolean {
    if (words <= this.#words.length) return false;
    const size = 2 ** Math.ceil(Math.log2(words));
    this.#buffers.free(this.#buffer);
    this.#words = new Uint32Array(size);
    this.#floats = new Float32Array(this.#words.buffer);
    this.#buffer = this.#make(size);
    return true;
  }

  // REQUIRES: reserve(words(contents)) was called.
  write(contents: ArenaContents, ropes: Ropes): void {
    const { rows, headRows, scales, pages, chunks, historySlot } = contents;
    const words = this.#words;
    let at = kRowsBegin + 4 * Math.max(rows.length, headRows.length);
    const pagesAt = new Map<number, number>();
    for (const [session, list] of pages) {
      pagesAt.set(session, at);
      words.set(list, at);
      at += list.length;
    }
    words[0] = rows.length;
    words[1] = at;
    words[2] = ropes.columns;
    words[3] = chunks;
    words[4] = historySlot ?? kNone;
    words[5] = headRows.length;
    for (const [index, { token, position, session }] of rows.entries()) {
      const row = kRowsBegin + 4 * index;
      words[row] = token === kChainedToken ? kNone : token;
      words[row + 1] = position;
      words[row + 2] = pagesAt.get(session) ?? 0;
      ropes.write(position, this.#floats, at);
      at += 2 * ropes.columns;
    }
    for (const [index, source] of headRows.entries()) {
      words[kRowsBegin + 4 * index + 3] = source;
    }
    words[6] = at;
    for (const scale of scales ?? []) this.#floats[at++] = scale;
    this.#buffers.gpu.device.queue.writeBuffer(this.#buffer, 0, words, 0, at);
  }
}
