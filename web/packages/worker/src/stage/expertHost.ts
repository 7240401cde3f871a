// The experts that this worker holds for hubs: each layer's are one shard, a layer of the engine
// behind those of the model, so that a message's rows for several of them run as one step. Decides
// nothing: membership says what is held and what is run. The counterpart of
// src/worker/expert_host.h.
//
// A shard whose experts change is loaded anew in the place of the old one, which goes first: the
// engine never holds both, and the offer is kept.
import { EngineError, f16ToF32, f32ToF16 } from "@weft/engine";
import type { StageEngine } from "@weft/engine";
import { blobsOf } from "@weft/engine/program/shards.ts";
import { RowType, failedResult, resultFrame } from "@weft/wire";
import type { ExpertFrame, LayerExperts } from "@weft/wire";

import type { ExpertBlobs } from "../download/expertBlobs.ts";
import { kMeasureSession } from "../membership/events.ts";

const kMostF16 = 65504;

interface Shard {
  readonly experts: readonly number[]; // rising
  readonly columns: number;
  readonly byteCount: number;
}

export interface ExpertsInstalled {
  readonly rest: number; // sets that are not loaded yet
  readonly usedBytes: number; // of the offer, by experts
}

// The results of dispatches, in their order; of one that cannot be computed the sentence why.
export interface ExpertRows {
  readonly results: readonly ExpertFrame[];
  readonly rows: number; // computed
  readonly error: unknown; // what the engine failed with, if it did
}

export class ExpertHost {
  readonly #layerCount: number;
  readonly #blobs: ExpertBlobs;
  readonly #engine: () => Promise<StageEngine>;
  readonly #shards = new Map<number, Shard>(); // by layer
  #steps = 0;

  constructor(layerCount: number, blobs: ExpertBlobs, engine: () => Promise<StageEngine>) {
    this.#layerCount = layerCount;
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
    const program = await this.#blobs.program(set);
    const before = engine.memory().weightBytes;
    const layerIndex = this.#layerCount + layer;
    await engine.loadProgram({ ...program, layerIndex }, this.#blobs.source, onBytes);
    const byteCount = engine.memory().weightBytes - before;
    const { columns } = program.buffers[program.output]!;
    this.#shards.set(layer, { experts, columns, byteCount });
    await this.#blobs.source.dropCopies(blobsOf(program));
  }

  async #unload(engine: StageEngine, layer: number): Promise<void> {
    if (this.#shards.delete(layer)) await engine.unload(this.#rangeOf(layer));
  }

  #rangeOf(layer: number): { first: number; end: number } {
    const first = this.#layerCount + layer;
    return { first, end: first + 1 };
  }

  async clear(): Promise<void> {
    if (this.#shards.size > 0) await this.install([], () => undefined);
  }

  async run(dispatches: readonly ExpertFrame[]): Promise<ExpertRows> {
    const results = new Map<ExpertFrame, ExpertFrame>();
    const byLayer = new Map<number, ExpertFrame[]>();
    for (const dispatch of dispatches) {
      const problem = this.#problemOf(dispatch);
      if (problem !== "") results.set(dispatch, failedResult(dispatch, problem));
      else byLayer.set(dispatch.layer, [...(byLayer.get(dispatch.layer) ?? []), dispatch]);
    }
    let rows = 0;
    let error: unknown = null;
    for (const own of byLayer.values()) {
      try {
        rows += await this.#runLayer(own, results);
      } catch (caught) {
        error = caught;
        const why = caught instanceof Error ? caught.message : String(caught);
        for (const dispatch of own) results.set(dispatch, failedResult(dispatch, why));
      }
    }
    return { results: dispatches.map((dispatch) => results.get(dispatch)!), rows, error };
  }

  #problemOf({ layer, expert, hidden }: ExpertFrame): string {
    const shard = this.#shards.get(layer);
    if (!shard?.experts.includes(expert)) {
      return `Expert ${expert} of layer ${layer} is not held here.`;
    }
    if (hidden === shard.columns) return "";
    return `The rows have ${hidden} columns, layer ${layer} takes ${shard.columns}.`;
  }

  // The rows of dispatches of one layer, which the shard takes. Returns how many there were.
  async #runLayer(
    dispatches: readonly ExpertFrame[],
    results: Map<ExpertFrame, ExpertFrame>,
  ): Promise<number> {
    const { layer } = dispatches[0]!;
    const { experts, columns } = this.#shards.get(layer)!;
    const count = dispatches.reduce((sum, { tokens }) => sum + tokens, 0);
    const stride = columns + 2;
    const input = new Float32Array(count * stride);
    let row = 0;
    for (const dispatch of dispatches) {
      const { expert, tokens } = dispatch;
      const values = valuesOf(dispatch);
      const place = experts.indexOf(expert);
      for (let token = 0; token < tokens; ++token, ++row) {
        input.set(values.subarray(token * columns, (token + 1) * columns), row * stride);
        input.set([place, 1], row * stride + columns);
      }
    }
    // Nothing of it is a session's: shards have no keys and values.
    const run = {
      session: kMeasureSession,
      generation: ++this.#steps,
      firstPosition: 0,
      count,
      output: { kind: "hidden" },
    } as const;
    const engine = await this.#engine();
    const { hidden } = await engine.step({
      layers: this.#rangeOf(layer),
      runs: [run],
      tokenIds: new Int32Array(0),
      hidden: input,
    });
    let at = 0;
    for (const dispatch of dispatches) {
      const values = hidden.slice(at, (at += dispatch.tokens * columns));
      results.set(dispatch, resultFrame(dispatch, bytesOf(values, dispatch.rowType)));
    }
    return count;
  }
}

// The rows are copied: a message is not aligned.
function valuesOf({ rows, rowType }: ExpertFrame): Float32Array {
  const { buffer } = rows.slice();
  if (rowType === RowType.f32) return new Float32Array(buffer);
  const halves = new Uint16Array(buffer);
  const values = new Float32Array(halves.length);
  f16ToF32(halves, values);
  return values;
}

// As f16, finite values beyond 65,504 become that, as StoreRow of src/wire/expert_frame.h has it.
function bytesOf(values: Float32Array, rowType: RowType): Uint8Array {
  if (rowType === RowType.f32) return new Uint8Array(values.buffer);
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
