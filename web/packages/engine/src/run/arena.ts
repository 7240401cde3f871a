// The parameters of a step in one buffer, written by one call: eight words of counts and places
// (StepWord), five words for each row (RowWord), then the page numbers of the sessions, the cosines
// and sines of the rows, the scales of the head's rows, and how many runs there are with where
// their recurrent state lies. For a row at position 70 of a session whose pages are 4, 9, 2 (32
// positions each; 70 lies in page 2), with two rotation pairs and no recurrent layers:
//
//   word 0     1   2   3   4      5   6   7   8      9   10  11     12      13..15  16..19  20  21
//        1 row 16  2   1   kNone  1   20  21  token  70  13  row 0  seat 0  4 9 2   c s c s 1/T 0
import type { Buffers } from "../gpu/buffers.ts";
import { Usage } from "../gpu/buffers.ts";
import { kRowWords, RowWord, StepWord } from "../kernels/common/numbers.ts";
import { kNone } from "../kernels/common/op.ts";
import type { Ropes } from "./ropes.ts";

const kMinWords = 1 << 14;

// A token that was chosen last for the row's seat, and only the GPU knows.
export const kChainedToken = -1;

export interface ArenaRow {
  readonly token: number;
  readonly position: number;
  readonly session: number;
  readonly seat?: number; // of whole-model decoding
}

export interface ArenaContents {
  readonly rows: readonly ArenaRow[];
  readonly headRows: readonly number[]; // indices of `rows`, or any, for the head's rows
  readonly pages: ReadonlyMap<number, readonly number[]>; // of the rows' sessions
  readonly scales?: readonly number[]; // of the head's rows: 1 / temperature
  readonly chunks: number;
  readonly historySlot: number | null;
  // Four words of every run for each layer with state, one layer after the other (state.wgsl).
  readonly stateRuns?: StateRuns;
}

export interface StateRuns {
  readonly runCount: number;
  readonly words: readonly number[];
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

  static words(
    { rows, headRows, pages, stateRuns }: ArenaContents,
    ropeColumns: number,
  ): number {
    let pageCount = 0;
    for (const list of pages.values()) pageCount += list.length;
    const rowCount = Math.max(rows.length, headRows.length);
    const rotations = 2 * ropeColumns * rows.length;
    const states = 1 + (stateRuns?.words.length ?? 0);
    const rowWords = kRowWords * rowCount;
    return StepWord.rowsBegin + rowWords + pageCount + rotations + headRows.length + states;
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
    const { rows, headRows, scales, pages, chunks, historySlot, stateRuns } = contents;
    const words = this.#words;
    const rowAt = (index: number): number => StepWord.rowsBegin + kRowWords * index;
    let at = rowAt(Math.max(rows.length, headRows.length));
    const pagesAt = new Map<number, number>();
    for (const [session, list] of pages) {
      pagesAt.set(session, at);
      words.set(list, at);
      at += list.length;
    }
    words[StepWord.bodyRows] = rows.length;
    words[StepWord.rotationsBegin] = at;
    words[StepWord.rotationPairs] = ropes.columns;
    words[StepWord.chunks] = chunks;
    words[StepWord.historySlot] = historySlot ?? kNone;
    words[StepWord.headRows] = headRows.length;
    for (const [index, { token, position, session, seat = 0 }] of rows.entries()) {
      const row = rowAt(index);
      words[row + RowWord.token] = token === kChainedToken ? kNone : token;
      words[row + RowWord.position] = position;
      words[row + RowWord.pagesBegin] = pagesAt.get(session) ?? 0;
      words[row + RowWord.seat] = seat;
      ropes.write(position, this.#floats, at);
      at += 2 * ropes.columns;
    }
    for (const [index, source] of headRows.entries()) {
      words[rowAt(index) + RowWord.source] = source;
    }
    words[StepWord.scalesBegin] = at;
    for (const scale of scales ?? []) this.#floats[at++] = scale;
    words[StepWord.runsBegin] = at;
    words[at++] = stateRuns?.runCount ?? 0;
    words.set(stateRuns?.words ?? [], at);
    at += stateRuns?.words.length ?? 0;
    this.#buffers.gpu.device.queue.writeBuffer(this.#buffer, 0, words, 0, at);
  }
}
