// StageEngine on onnxruntime-web: any decoder that ONNX can say, on wasm or WebGPU. The sessions of
// a step run one after another; keys and values are copied by the library in every run, which is
// what our own engines do not do.
import type { Tensor } from "onnxruntime-web";

import { EngineError, kNothingHeld, SessionTable } from "@weft/engine";
import type {
  HeldSession,
  LayerRange,
  MemoryUse,
  Run,
  SessionFork,
  StageEngine,
  StepInput,
  StepOutput,
  WeightSource,
} from "@weft/engine";

import type { HeapBudget } from "./heapBudget.ts";
import { KvStore, positionBytes } from "./kvStore.ts";
import { LayerSession } from "./layerSession.ts";
import { StepRun, checkStep } from "./stepRun.ts";
import type { OrtRuntime } from "./runtime.ts";
import { weightFactor } from "./weightEstimate.ts";

export class OrtEngine implements StageEngine {
  readonly name: string;
  readonly detail: string;
  readonly kvFactor = 2; // f32 caches; those of f16 graphs take half of that
  readonly copiesKv = true;
  readonly #runtime: OrtRuntime;
  readonly #budget: HeapBudget;
  readonly #layers = new Map<number, LayerSession>();
  readonly #table = new SessionTable();
  readonly #kv: KvStore;
  // Taken when the most was loaded: the heap never shrinks, so that later loads into freed room say
  // nothing.
  #mostLoadedBytes = 0;
  #weightFactor: number;
  readonly #guess: number;

  // `guess`: bytes for a byte of weights, before the heap has told.
  constructor(runtime: OrtRuntime, budget: HeapBudget, guess: number) {
    this.#runtime = runtime;
    this.#budget = budget;
    this.#guess = this.#weightFactor = guess;
    this.name = `ort-${runtime.provider}`;
    this.detail = runtime.threads === 1 ? "1 thread" : `${runtime.threads} threads`;
    this.#kv = new KvStore(runtime.ort, (delta) => budget.addOther(delta));
  }

  async load(layers: LayerRange, source: WeightSource): Promise<void> {
    const loaded: LayerSession[] = [];
    try {
      for (let layer = layers.first; layer < layers.end; ++layer) {
        if (this.#layers.has(layer)) continue;
        loaded.push(
          await LayerSession.create(this.#runtime, layer, source, (bytes) => this.#reserve(bytes)),
        );
      }
    } catch (error) {
      for (const session of loaded) await session.release();
      throw error;
    }
    for (const session of loaded) {
      this.#layers.set(session.layer, session);
      this.#table.addLayer(session.layer, { kv: session.states.length > 0, state: false });
    }
    this.#measureWeights();
  }

  // Counts a blob that is on its way into the heap.
  #reserve(bytes: number): () => void {
    if (!this.#budget.fits(bytes)) {
      throw new EngineError(
        "out_of_memory",
        `A blob of ${bytes} bytes does not fit beside ${this.#budget.heapBytes} bytes of heap ` +
          `and ${this.#budget.otherBytes} bytes of keys and values; the offer is ` +
          `${this.#budget.limitBytes} bytes.`,
      );
    }
    this.#budget.addOther(bytes);
    return () => this.#budget.addOther(-bytes);
  }

  #loadedBytes(): number {
    let bytes = 0;
    for (const session of this.#layers.values()) bytes += session.blobBytes;
    return bytes;
  }

  #measureWeights(): void {
    const loaded = this.#loadedBytes();
    if (loaded < this.#mostLoadedBytes || loaded === 0) return;
    this.#mostLoadedBytes = loaded;
    const { heapBytes, bytesBeforeGrowth, initialBytes } = this.#budget;
    this.#weightFactor = weightFactor(this.#guess, {
      loadedBytes: loaded,
      largestLayerBytes: Math.max(...[...this.#layers.values()].map(({ blobBytes }) => blobBytes)),
      heapBytes,
      bytesBeforeGrowth,
      initialBytes,
    });
  }

  weightFactor(): number {
    return this.#weightFactor;
  }

  async unload(layers: LayerRange): Promise<void> {
    for (let layer = layers.first; layer < layers.end; ++layer) {
      const session = this.#layers.get(layer);
      if (!session) continue;
      this.#layers.delete(layer);
      this.#kv.removeLayer(layer);
      this.#table.removeLayer(layer);
      await session.release();
    }
  }

  isLoaded(layers: LayerRange): boolean {
    for (let layer = layers.first; layer < layers.end; ++layer) {
      if (!this.#layers.has(layer)) return false;
    }
    return layers.first < layers.end;
  }

  async step(input: StepInput): Promise<StepOutput> {
    const sessions = this.#sessionsOf(input.layers);
    const columns = checkStep(sessions, input);
    this.#table.check(input.layers, input.runs);
    this.#checkMemory(sessions, input.runs);
    const done: StepRun[] = [];
    let row = 0;
    try {
      for (const run of input.runs) {
        const computed = new StepRun(this.#runtime, this.#kv, sessions, run);
        done.push(computed);
        await computed.compute(input, row, columns);
        row += run.count;
      }
    } catch (error) {
      for (const computed of done) computed.discard();
      throw error;
    }
    for (const computed of done) computed.commit();
    this.#table.commit(input.layers, input.runs);
    return joined(done);
  }

  #sessionsOf(layers: LayerRange): LayerSession[] {
    const sessions: LayerSession[] = [];
    for (let layer = layers.first; layer < layers.end; ++layer) {
      const session = this.#layers.get(layer);
      if (!session) {
        throw new EngineError(
          "invalid_argument",
          `Layer ${layer} is not loaded, so a step over layers [${layers.first}, ${layers.end}) ` +
            `cannot run.`,
        );
      }
      sessions.push(session);
    }
    return sessions;
  }

  // The step's new keys and values beside the old ones, which stay until it has succeeded.
  #checkMemory(sessions: readonly LayerSession[], runs: readonly Run[]): void {
    const perPosition = sessions.reduce((sum, { states }) => sum + positionBytes(states), 0);
    const positions = runs.reduce((sum, run) => sum + run.firstPosition + run.count, 0);
    const bytes = perPosition * positions;
    if (this.#budget.fits(bytes)) return;
    throw new EngineError(
      "out_of_memory",
      `A step needs ${bytes} bytes for keys and values beside ${this.#budget.heapBytes} bytes ` +
        `of heap and ${this.#kv.bytes} bytes of keys and values; the offer is ` +
        `${this.#budget.limitBytes} bytes.`,
    );
  }

  truncate(session: number, generation: number, position: number): Promise<void> {
    return Promise.resolve().then(() => {
      this.#table.truncate(session, generation, position); // tensors are trimmed when next used
    });
  }

  // onnxruntime has no pages: a fork is a copy, and takes the memory of a session.
  async fork(layers: LayerRange, fork: SessionFork): Promise<void> {
    const { from, to, generation, positionCount } = fork;
    const sessions = this.#sessionsOf(layers);
    this.#table.checkFork(layers, fork);
    const end: Run = {
      session: to,
      generation,
      firstPosition: positionCount,
      count: 0,
      output: { kind: "none" },
    };
    this.#checkMemory(sessions, [end]);
    const copies = new Map<number, Tensor[]>();
    for (const [index, { states }] of sessions.entries()) {
      const layer = layers.first + index;
      if (states.length === 0) continue;
      copies.set(layer, await this.#kv.copy(from, layer, states, positionCount));
    }
    for (const [layer, tensors] of copies) this.#kv.put(to, layer, tensors);
    this.#table.fork(layers, fork);
  }

  release(session: number): void {
    this.#table.release(session);
    this.#kv.release(session);
  }

  releaseAll(): void {
    this.#table.releaseAll();
    this.#kv.releaseAll();
  }

  heldSession(session: number, layers: LayerRange): HeldSession {
    return this.isLoaded(layers) ? this.#table.held(session, layers) : kNothingHeld;
  }

  async exportKv(
    session: number,
    layer: number,
    first: number,
    count: number,
  ): Promise<Uint16Array> {
    const length = this.#table.layerLength(session, layer);
    if (first + count > length) {
      throw new EngineError(
        "invalid_argument",
        `Session ${session} holds ${length} positions of layer ${layer}; ${count} from position ` +
          `${first} were asked for.`,
      );
    }
    const states = this.#layers.get(layer)?.states ?? [];
    return await this.#kv.export(session, layer, states, first, count);
  }

  async importKv(
    session: number,
    generation: number,
    layer: number,
    first: number,
    count: number,
    kv: Uint16Array,
  ): Promise<void> {
    const range = { first: layer, end: layer + 1 };
    const [{ states }] = this.#sessionsOf(range) as [LayerSession];
    const run: Run = {
      session,
      generation,
      firstPosition: first,
      count,
      output: { kind: "none" },
    };
    this.#table.check(range, [run]);
    const columns = states.reduce((sum, state) => sum + state.heads * state.headColumns, 0);
    if (columns === 0 || kv.length !== columns * count) {
      throw new EngineError(
        "invalid_data",
        `KV of ${count} positions of layer ${layer} takes ${columns * count} values; ` +
          `${kv.length} came.`,
      );
    }
    this.#checkMemory(this.#sessionsOf(range), [run]);
    const tensors: Tensor[] = await this.#kv.importing(session, layer, states, first, count, kv);
    this.#kv.put(session, layer, tensors);
    this.#table.commit(range, [run]);
  }

  memory(): MemoryUse {
    const heap = this.#budget.heapBytes;
    const loaded = this.#loadedBytes();
    // On a GPU the weights are not in the heap; on wasm a small model may fit the initial heap.
    const weightBytes = Math.min(Math.ceil(this.#weightFactor * loaded), Math.max(heap, loaded));
    return {
      weightBytes,
      kvBytes: this.#kv.bytes,
      scratchBytes: Math.max(0, heap - weightBytes),
    };
  }

  async dispose(): Promise<void> {
    this.releaseAll();
    await this.unload({ first: 0, end: Math.max(-1, ...this.#layers.keys()) + 1 });
  }
}

function joined(runs: readonly StepRun[]): StepOutput {
  const concat = (arrays: Float32Array[]): Float32Array => {
    if (arrays.length === 1) return arrays[0]!;
    const out = new Float32Array(arrays.reduce((sum, array) => sum + array.length, 0));
    let at = 0;
    for (const array of arrays) {
      out.set(array, at);
      at += array.length;
    }
    return out;
  };
  return {
    hidden: concat(runs.flatMap((run) => run.hidden)),
    logits: concat(runs.flatMap((run) => run.logits)),
    selections: runs.flatMap((run) => run.selections),
  };
}

