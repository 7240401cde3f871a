// The parts of layers that this worker holds for hubs, as layers of the engine behind those of the
// model. A layer's experts are one of these, so that a message's rows for several of them run as
// one step. Each range of a product, or of an output head, is another. Decides nothing: membership
// says what is held and what is run. The counterpart of src/worker/expert_host.h.
//
// A shard whose parts change is loaded anew in the place of the old one, which goes first: the
// engine never holds both, and the offer is kept.
import { EngineError, f16ToF32, f32ToF16 } from "@weft/engine";
import type { StageEngine, StepOutput } from "@weft/engine";
import type { MatMul, MoeExperts } from "@weft/engine/program/ir.ts";
import { blobsOf } from "@weft/engine/program/shards.ts";
import type { PartProgram } from "@weft/engine/program/shards.ts";
import {
  RowType, answerTypeOf, elementBytesOf, failedResult, integerRowBytes, kMaxRowBytes,
  readIntegerRow, resultFrame,
} from "@weft/wire";
import type { ExpertFrame, LayerExperts } from "@weft/wire";

import type { ExpertBlobs } from "../download/expertBlobs.ts";
import { kMeasureSession } from "../membership/events.ts";
import { addedUp, inSteps } from "./rowSums.ts";

const kMostF16 = 65504;
const kBestColumns = 4; // best logit, its column in the range, the second's (src/base/slot_kind.h)

// What one program of a layer computes, which is a layer of the engine.
interface Piece {
  readonly kind: PartProgram["kind"];
  readonly parts: readonly number[]; // rising
  readonly layer: number; // of the engine
  readonly columns: number; // of a row that goes in
  readonly slotColumns: number; // of one that comes out
  readonly step: number; // of the grid that the experts' outputs lie on; 0: on none
}

// What is held of one layer.
interface Shard {
  readonly experts: readonly number[]; // and ranges, rising
  readonly layers: { readonly first: number; readonly end: number }; // of the engine
  readonly pieceOf: ReadonlyMap<number, Piece>; // by part
  readonly byteCount: number;
}

export interface ExpertsInstalled {
  readonly rest: number; // sets that are not loaded yet
  readonly usedBytes: number; // of the offer, by experts
}

// The results of dispatches, in their order; of one that cannot be computed the sentence why. Of
// those that may be added up and have the same rows one, their sum, in the place of the first.
export interface ExpertRows {
  readonly results: readonly ExpertFrame[];
  readonly rows: number; // computed
  readonly error: unknown; // what the engine failed with, if it did
}

// Dispatches that the engine computes, and where their results go.
type Asked = readonly ExpertFrame[];
type Results = Map<ExpertFrame, ExpertFrame>;

export class ExpertHost {
  readonly #layerCount: number;
  readonly #blobs: ExpertBlobs;
  readonly #engine: () => Promise<StageEngine>;
  readonly #shards = new Map<number, Shard>(); // by layer
  #nextLayer: number; // of the engine
  #steps = 0;

  constructor(layerCount: number, blobs: ExpertBlobs, engine: () => Promise<StageEngine>) {
    this.#layerCount = layerCount;
    this.#nextLayer = layerCount;
    this.#blobs = blobs;
    this.#engine = engine;
  }

  // Of their weights.
  get usedBytes(): number {
    let bytes = 0;
    for (const { byteCount } of this.#shards.values()) bytes += byteCount;
    return bytes;
  }

  // The next step towards holding exactly these experts: at most one set is loaded. Sets that
  // shrink come first, so that no more is held in between than before or after.
  async install(
    sets: readonly LayerExperts[],
    onBytes: (bytes: number) => void,
  ): Promise<ExpertsInstalled> {
    const engine = await this.#engine();
    for (const layer of [...this.#shards.keys()]) {
      if (!sets.some((set) => set.layer === layer)) await this.#unload(engine, layer);
    }
    const growth = ({ layer, experts }: LayerExperts): number =>
      experts.length - (this.#shards.get(layer)?.experts.length ?? 0);
    const changed = sets
      .filter(({ layer, experts }) => !isSame(this.#shards.get(layer)?.experts ?? [], experts))
      .sort((a, b) => growth(a) - growth(b));
    if (changed[0]) await this.#load(engine, changed[0], onBytes);
    // What computes is counted once: with the experts where no layer of the model is loaded.
    const layers = Array.from({ length: this.#layerCount }, (_, first) => first);
    const isStage = layers.some((first) => engine.isLoaded({ first, end: first + 1 }));
    const scratchBytes = isStage || sets.length === 0 ? 0 : engine.memory().scratchBytes;
    const usedBytes = Math.ceil(this.usedBytes + scratchBytes);
    return { rest: Math.max(0, changed.length - 1), usedBytes };
  }

  async #load(
    engine: StageEngine,
    set: LayerExperts,
    onBytes: (bytes: number) => void,
  ): Promise<void> {
    if (!engine.loadProgram) {
      throw new EngineError("unsupported", "The engine of this worker runs no experts.");
    }
    const { layer, experts } = set;
    await this.#unload(engine, layer);
    const programs = await this.#blobs.programs(set);
    const before = engine.memory().weightBytes;
    const first = this.#nextLayer;
    this.#nextLayer += programs.length;
    const layers = { first, end: this.#nextLayer };
    try {
      for (const [i, { program }] of programs.entries()) {
        const layerIndex = first + i;
        await engine.loadProgram({ ...program, layerIndex }, this.#blobs.source, onBytes);
      }
    } catch (error) {
      await engine.unload(layers);
      throw error;
    }
    const byteCount = engine.memory().weightBytes - before;
    const pieceOf = piecesOf(programs, first);
    this.#shards.set(layer, { experts, layers, pieceOf, byteCount });
    const digests = programs.flatMap(({ program }) => blobsOf(program));
    await this.#blobs.source.dropCopies([...new Set(digests)]);
  }

  async #unload(engine: StageEngine, layer: number): Promise<void> {
    const shard = this.#shards.get(layer);
    if (this.#shards.delete(layer)) await engine.unload(shard!.layers);
  }

  async clear(): Promise<void> {
    if (this.#shards.size > 0) await this.install([], () => undefined);
  }

  async run(dispatches: readonly ExpertFrame[]): Promise<ExpertRows> {
    const isExpert = (dispatch: ExpertFrame): boolean =>
      this.#pieceOf(dispatch)?.kind === "experts";
    const results: Results = new Map();
    const together = new Map<string, ExpertFrame[]>(); // of a layer's experts, or of its ranges
    let answeredBytes = 0; // ranges may answer with more columns than they are asked with
    for (const dispatch of dispatches) {
      answeredBytes += this.#answerBytes(dispatch);
      const problem = this.#problemOf(dispatch, answeredBytes);
      const key = `${dispatch.layer} ${isExpert(dispatch) ? "experts" : "ranges"}`;
      if (problem !== "") results.set(dispatch, failedResult(dispatch, problem));
      else together.set(key, [...(together.get(key) ?? []), dispatch]);
    }
    let rows = 0;
    let error: unknown = null;
    for (const asked of together.values()) {
      try {
        if (isExpert(asked[0]!)) await this.#runExperts(asked, results);
        else await this.#runRanges(asked, results);
        rows += asked.reduce((sum, { tokens }) => sum + tokens, 0);
      } catch (caught) {
        error = caught;
        const why = caught instanceof Error ? caught.message : String(caught);
        for (const dispatch of asked) results.set(dispatch, failedResult(dispatch, why));
      }
    }
    const answers = dispatches.map((dispatch) => results.get(dispatch)!);
    const sums = addedUp(dispatches, answers, isExpert);
    return { results: sums.map((sum) => this.#inSteps(sum, dispatches)), rows, error };
  }

  #inSteps(result: ExpertFrame, dispatches: readonly ExpertFrame[]): ExpertFrame {
    const asked = dispatches.find(({ sequence, layer, expert }) =>
      sequence === result.sequence && layer === result.layer && expert === result.expert);
    const step = this.#pieceOf(result)?.step ?? 0;
    const may = asked?.takesSteps === true && !result.failed && step > 0;
    return may ? inSteps(result, step) : result;
  }

  #pieceOf({ layer, expert }: Pick<ExpertFrame, "layer" | "expert">): Piece | undefined {
    return this.#shards.get(layer)?.pieceOf.get(expert);
  }

  #answerBytes({ layer, expert, tokens, best, rowType }: ExpertFrame): number {
    const piece = this.#pieceOf({ layer, expert });
    const columns = best ? kBestColumns : (piece?.slotColumns ?? 0);
    return tokens * columns * elementBytesOf(answerTypeOf(rowType));
  }

  #problemOf({ layer, expert, hidden, best }: ExpertFrame, answeredBytes: number): string {
    const piece = this.#pieceOf({ layer, expert });
    if (!piece) return `Expert ${expert} of layer ${layer} is not held here.`;
    if (hidden !== piece.columns) {
      return `The rows have ${hidden} columns, layer ${layer} takes ${piece.columns}.`;
    }
    if (best && piece.kind !== "head") {
      return `Layer ${layer} is no output head: it has no best tokens.`;
    }
    if (answeredBytes <= kMaxRowBytes) return "";
    return (
      `The answers to a message would have ${answeredBytes} bytes of rows, expected at most ` +
      `${kMaxRowBytes}.`
    );
  }

  // The rows of dispatches of one layer's experts.
  async #runExperts(dispatches: Asked, results: Results): Promise<void> {
    const { parts, columns, layer } = this.#pieceOf(dispatches[0]!)!;
    const count = dispatches.reduce((sum, { tokens }) => sum + tokens, 0);
    const stride = columns + 2;
    const input = new Float32Array(count * stride);
    let row = 0;
    for (const dispatch of dispatches) {
      const { expert, tokens } = dispatch;
      const values = valuesOf(dispatch);
      const place = parts.indexOf(expert);
      for (let token = 0; token < tokens; ++token, ++row) {
        input.set(values.subarray(token * columns, (token + 1) * columns), row * stride);
        input.set([place, 1], row * stride + columns);
      }
    }
    const { hidden } = await this.#step(layer, "hidden", input, count);
    let at = 0;
    for (const dispatch of dispatches) {
      const values = hidden.slice(at, (at += dispatch.tokens * columns));
      results.set(dispatch, resultFrame(dispatch, bytesOf(values, dispatch.rowType)));
    }
  }

  // The same of ranges: a step for each, all of them under way at once.
  async #runRanges(dispatches: Asked, results: Results): Promise<void> {
    const steps = dispatches.map(async (dispatch, i) => {
      const { layer, slotColumns } = this.#pieceOf(dispatch)!;
      const rows = valuesOf(dispatch);
      const { logits } = await this.#step(layer, "logits", rows, dispatch.tokens, i);
      const values = dispatch.best ? bestOfRows(logits, slotColumns) : logits;
      results.set(dispatch, resultFrame(dispatch, bytesOf(values, dispatch.rowType)));
    });
    const ended = await Promise.allSettled(steps);
    const failed = ended.find((each) => each.status === "rejected");
    if (failed) throw failed.reason;
  }

  // Nothing of it is a session's: shards have no keys and values. Steps that are under way at once
  // are of different sessions.
  async #step(
    layer: number, // of the engine
    kind: "hidden" | "logits",
    hidden: Float32Array,
    count: number,
    place = 0,
  ): Promise<StepOutput> {
    const session = kMeasureSession - place;
    const generation = ++this.#steps;
    const run = { session, generation, firstPosition: 0, count, output: { kind } };
    const layers = { first: layer, end: layer + 1 };
    const engine = await this.#engine();
    return await engine.step({ layers, runs: [run], tokenIds: new Int32Array(0), hidden });
  }
}

// By part; `firstLayer` is the engine's layer of the first program.
function piecesOf(programs: readonly PartProgram[], firstLayer: number): Map<number, Piece> {
  const pieceOf = new Map<number, Piece>();
  for (const [i, { program: { ops, buffers, output }, kind, parts }] of programs.entries()) {
    const op = ops[0] as MatMul | MoeExperts;
    const piece: Piece = {
      kind,
      parts,
      layer: firstLayer + i,
      columns: op.in.columns,
      slotColumns: buffers[output]!.columns,
      step: op.kind === "matmul" ? 0 : op.grid.step,
    };
    for (const part of parts) pieceOf.set(part, piece);
  }
  return pieceOf;
}

// Of rows of logits the two best each: the logit and its column, then the second's. Equal logits:
// the lower column comes first.
function bestOfRows(logits: Float32Array, columns: number): Float32Array {
  const rows = logits.length / columns;
  const all = new Float32Array(rows * kBestColumns);
  for (let row = 0; row < rows; ++row) {
    let [best, second] = [-1, -1]; // columns
    const at = (column: number): number => logits[row * columns + column]!;
    for (let column = 0; column < columns; ++column) {
      if (best < 0 || at(column) > at(best)) [best, second] = [column, best];
      else if (second < 0 || at(column) > at(second)) second = column;
    }
    all.set([at(best), best, at(second), second], row * kBestColumns);
  }
  return all;
}

// The rows are copied: a message is not aligned.
function valuesOf({ rows, rowType, tokens, hidden }: ExpertFrame): Float32Array {
  if (rowType === RowType.integers) {
    const values = new Float32Array(tokens * hidden);
    const rowBytes = integerRowBytes(hidden);
    for (let row = 0; row < tokens; ++row) {
      const bytes = rows.subarray(row * rowBytes, (row + 1) * rowBytes);
      readIntegerRow(bytes, values.subarray(row * hidden, (row + 1) * hidden));
    }
    return values;
  }
  const { buffer } = rows.slice();
  if (rowType === RowType.f32) return new Float32Array(buffer);
  const halves = new Uint16Array(buffer);
  const values = new Float32Array(halves.length);
  f16ToF32(halves, values);
  return values;
}

// As f16, finite values beyond 65,504 become that, as StoreRow of src/wire/expert_frame.h has it.
function bytesOf(values: Float32Array, asked: RowType): Uint8Array {
  if (answerTypeOf(asked) === RowType.f32) {
    // A single row of logits lies in a longer buffer of the engine.
    return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  }
  const halves = new Uint16Array(values.length);
  f32ToF16(values.map(withinF16), halves);
  return new Uint8Array(halves.buffer);
}

function withinF16(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(value, -kMostF16), kMostF16) : value;
}

function isSame(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((expert, index) => expert === b[index]);
}
