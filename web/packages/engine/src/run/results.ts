// What a step gives back: which bytes are copied into its staging buffer as it is encoded, and what
// they mean once they are there.
import { EngineError } from "../base/error.ts";
import { kResultHeader, kResultWords, stretchesOf } from "../dispatch/layout.ts";
import type { Layout } from "../dispatch/layout.ts";
import { packedStride } from "../dispatch/selection.ts";
import { changesLogits } from "../sampling/parameters.ts";
import { selectRow } from "../stage/selectRow.ts";
import { countNonFinite } from "../sampling/selectTop.ts";
import type { Run, Selection, StepOutput } from "../stage/stageEngine.ts";
import type { BufferCopy } from "./encoder.ts";

export const kCheckBytes = 8;

// Candidates of logits as they are. Penalties, biases and draws want the whole row, which is read
// back and looked at here.
export function selectsOnGpu({ output }: Run): boolean {
  if (output.kind !== "candidates") return false;
  return output.sampling === undefined || !changesLogits(output.sampling);
}

interface Piece {
  readonly copy: Omit<BufferCopy, "to">;
  readonly read: (bytes: ArrayBuffer, at: number) => void;
}

export class Results {
  readonly #layout: Layout;
  readonly #act: GPUBuffer;
  readonly #aux: GPUBuffer;
  readonly #pieces: Piece[] = [];
  readonly #hidden: Float32Array[] = [];
  readonly #packed: Uint8Array<ArrayBuffer>[] = [];
  readonly #logits: Float32Array[] = [];
  readonly #selections: Selection[] = [];
  #byteCount = 0;
  #badCount = 0;
  #badGiven = 0;

  constructor(layout: Layout, act: GPUBuffer, aux: GPUBuffer) {
    this.#layout = layout;
    this.#act = act;
    this.#aux = aux;
  }

  get byteCount(): number {
    return this.#byteCount;
  }

  #add(
    from: GPUBuffer,
    fromByte: number,
    byteCount: number,
    read: (bytes: ArrayBuffer, at: number) => void,
  ): void {
    const copy = { from, fromByte, toByte: this.#byteCount, byteCount };
    this.#pieces.push({ copy, read });
    this.#byteCount += byteCount;
  }

  // Rows [first, first + count) of the residual stream.
  addHidden(first: number, count: number, columns: number): void {
    const { base, stride } = this.#layout.residual;
    this.#add(this.#act, 4 * (base + first * stride), 4 * count * stride, (bytes, at) => {
      const rows = new Float32Array(bytes, at, count * stride);
      if (stride === columns) return void this.#hidden.push(rows);
      for (let row = 0; row < count; ++row) {
        this.#hidden.push(rows.subarray(row * stride, row * stride + columns));
      }
    });
  }

  // The same rows as they cross the wire: check.wgsl packed them.
  addPacked(first: number, count: number, columns: number): void {
    const stride = packedStride(columns);
    const from = 4 * (this.#layout.packedBase + first * stride);
    this.#add(this.#act, from, 4 * count * stride, (bytes, at) => {
      for (let row = 0; row < count; ++row) {
        this.#packed.push(new Uint8Array(bytes, at + 4 * row * stride, 2 * columns));
      }
    });
  }

  // The head's row `row`, as its run asked for it.
  addHeadRow(row: number, run: Run, columns: number): void {
    const { logits, aux } = this.#layout;
    const { output } = run;
    if (output.kind === "none" || output.kind === "hidden") return;
    const onGpu = output.kind === "argmax" || selectsOnGpu(run);
    if (output.kind === "logits" || !onGpu) {
      const from = 4 * (logits.base + row * logits.stride);
      this.#add(this.#act, from, 4 * columns, (bytes, at) => {
        const values = new Float32Array(bytes, at, columns);
        const badCount = countNonFinite(values);
        this.#badCount += badCount;
        if (output.kind === "logits") this.#logits.push(values);
        else if (badCount === 0) this.#selections.push(selectRow(values, output));
      });
      return;
    }
    const count = output.kind === "candidates" ? output.count : 0;
    const sums = count > 0 ? stretchesOf(columns) : 0;
    const from = 4 * (aux.resultAt + row * kResultWords);
    const words = kResultHeader + 2 * count;
    const sum = { value: 0 };
    if (sums > 0) {
      this.#add(this.#aux, 4 * (aux.sumsAt + row * sums), 4 * sums, (bytes, at) => {
        sum.value = new Float32Array(bytes, at, sums).reduce((total, part) => total + part, 0);
      });
    }
    this.#add(this.#aux, from, 4 * words, (bytes, at) => {
      const selection = this.#selection(new DataView(bytes, at, 4 * words), count, columns);
      this.#selections.push(sums > 0 ? { ...selection, scaledSum: sum.value } : selection);
    });
  }

  #selection(view: DataView, count: number, vocabulary: number): Selection {
    const candidate = (at: number): Selection["candidates"][number] => ({
      tokenId: view.getUint32(at, true),
      logit: view.getFloat32(at + 4, true),
    });
    this.#badCount += view.getUint32(20, true);
    const best = candidate(0);
    const candidates =
      count === 0
        ? [best, candidate(8)].slice(0, Math.min(2, vocabulary))
        : Array.from({ length: count }, (_, i) =>
            candidate(4 * kResultHeader + 8 * i),
          );
    return { candidates, logsumexp: best.logit + Math.log(view.getFloat32(16, true)) };
  }

  // The counts of values that are not finite in the residual stream and in the rows that came.
  addCheck(): void {
    this.#add(this.#aux, 0, kCheckBytes, (bytes, at) => {
      const [computed, given] = new Uint32Array(bytes, at, 2);
      this.#badCount += computed!;
      this.#badGiven = given!;
    });
  }

  // The copies added since the last call.
  takeCopies(to: GPUBuffer, from: number): BufferCopy[] {
    return this.#pieces.slice(from).map(({ copy }) => ({ ...copy, to }));
  }

  get pieceCount(): number {
    return this.#pieces.length;
  }

  // Throws EngineError (invalid_data) when something is not finite.
  finish(bytes: ArrayBuffer, firstLayer: number, lastLayer: number): StepOutput {
    for (const { copy, read } of this.#pieces) read(bytes, copy.toByte);
    if (this.#badGiven > 0) {
      throw new EngineError(
        "invalid_data",
        `The rows handed to layer ${firstLayer} hold ${this.#badGiven} values that are not finite.`,
      );
    }
    if (this.#badCount > 0) {
      throw new EngineError(
        "invalid_data",
        `The layers up to ${lastLayer} computed ${this.#badCount} values that are not finite.`,
      );
    }
    return {
      ...(this.#packed.length > 0 ? { packed: joinedBytes(this.#packed) } : {}),
      hidden: joined(this.#hidden),
      selections: this.#selections,
      logits: joined(this.#logits),
    };
  }
}

function joined(parts: readonly Float32Array[]): Float32Array {
  if (parts.length === 1) return parts[0]!;
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

// Rows that follow each other in one buffer are one piece already.
function joinedBytes(parts: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  const [first] = parts;
  const total = parts.reduce((sum, part) => sum + part.length, 0);
  const isWhole = parts.every(
    (part, i) =>
      part.buffer === first!.buffer && part.byteOffset === first!.byteOffset + i * first!.length,
  );
  if (isWhole) return new Uint8Array(first!.buffer, first!.byteOffset, total);
  const out = new Uint8Array(total);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
