// The engine of one connection and the stages that it was given: measures, loads, commits, retires,
// computes. One verb at a time (the session's compute queue). Failures are EngineErrors.
import { EngineError } from "@weft/engine";
import type { GenerateRequest, LayerRange, StageEngine } from "@weft/engine";
import { FrameType } from "@weft/wire";
import type { Frame, GenerateFrame, Init, Sampling } from "@weft/wire";

import type { Manifest } from "../download/manifest.ts";
import { measureRange } from "./measure.ts";
import { memoryFactor } from "./memoryFactor.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { SamplingTable } from "../session/samplingTable.ts";
import { kMeasureSession, StageTable } from "../session/stageTable.ts";
import { decodeStep, encodeResult } from "./stepCodec.ts";

export interface Timing {
  readonly layers: LayerRange;
  readonly runUs: readonly number[];
}

export interface LoadedStage {
  readonly weightFactor: number; // as Prepared reports it
  readonly usedBytes: number;
}

export interface ComputedStep {
  readonly message: Uint8Array<ArrayBuffer>; // the result frame
  readonly computeMs: number;
}

export class StageHost {
  readonly #manifest: Manifest;
  readonly #source: PackageSource;
  readonly #makeEngine: (manifest: Manifest) => Promise<StageEngine>;
  readonly #now: () => number;
  readonly #stages = new StageTable();
  readonly #sampling = new SamplingTable();
  #engine: StageEngine | null = null;

  constructor(
    manifest: Manifest,
    source: PackageSource,
    makeEngine: (manifest: Manifest) => Promise<StageEngine>,
    now: () => number,
  ) {
    this.#manifest = manifest;
    this.#source = source;
    this.#makeEngine = makeEngine;
    this.#now = now;
  }

  // The layers of the plan that was committed last.
  active(): LayerRange | undefined {
    return this.#stages.active();
  }

  layersOf(epoch: number, stage: number): LayerRange | undefined {
    return this.#stages.layersOf(epoch, stage);
  }

  usedBytes(): number {
    if (!this.#engine) return 0;
    const { weightBytes, kvBytes, scratchBytes } = this.#engine.memory();
    return Math.ceil(weightBytes + kvBytes + scratchBytes);
  }

  async measure(ranges: readonly LayerRange[], runs: number): Promise<Timing[]> {
    const timings: Timing[] = [];
    try {
      const engine = await this.#loadedEngine();
      for (const layers of ranges) {
        await engine.load(layers, this.#source);
        const runUs = await measureRange(engine, layers, this.#manifest, runs, this.#now);
        timings.push({ layers, runUs });
      }
      return timings;
    } finally {
      this.#engine?.release(kMeasureSession);
      await this.#unloadExcept(this.#stages.ranges());
    }
  }

  prepare(epoch: number, stage: number, layers: LayerRange): void {
    this.#stages.prepare(epoch, stage, layers);
  }

  // null: the stage was retired meanwhile.
  async load(
    epoch: number,
    init: Init,
    onProgress: (doneBytes: number, totalBytes: number) => void,
  ): Promise<LoadedStage | null> {
    const layers = this.#stages.find(epoch);
    if (!layers) return null;
    try {
      const engine = await this.#loadedEngine();
      const totalBytes = this.#bytesToLoad(engine, layers);
      let doneBytes = 0;
      await engine.load(layers, this.#source, (bytes) => {
        doneBytes = Math.min(totalBytes, doneBytes + bytes);
        onProgress(doneBytes, totalBytes);
      });
      this.#stages.setLoaded(epoch);
      return {
        weightFactor: memoryFactor(this.#manifest, init, this.#measuredFactor(engine), engine),
        usedBytes: this.usedBytes(),
      };
    } catch (error) {
      this.#stages.remove(epoch);
      await this.#unloadExcept(this.#stages.ranges()); // what loaded before the failure
      throw error;
    }
  }

  #bytesToLoad(engine: StageEngine, { first, end }: LayerRange): number {
    let bytes = 0;
    for (let layer = first; layer < end; ++layer) {
      if (engine.isLoaded({ first: layer, end: layer + 1 })) continue;
      bytes += this.#manifest.layers[layer]!.weightBytes;
    }
    return bytes;
  }

  // Bytes that the engine holds for one byte of the weights that are loaded.
  #measuredFactor(engine: StageEngine): number {
    let loadedBytes = 0;
    for (const [layer, { weightBytes }] of this.#manifest.layers.entries()) {
      if (engine.isLoaded({ first: layer, end: layer + 1 })) loadedBytes += weightBytes;
    }
    return loadedBytes === 0 ? 1 : engine.memory().weightBytes / loadedBytes;
  }

  commit(epoch: number): void {
    if (this.#stages.commit(epoch)) return;
    throw new EngineError("invalid_argument", `Epoch ${epoch} is not prepared here.`);
  }

  async retire(keep: readonly LayerRange[]): Promise<void> {
    this.#stages.keepWithin(keep);
    await this.#unloadExcept(keep);
  }

  releaseSessions(sessions: readonly number[]): void {
    for (const session of sessions) {
      this.#engine?.release(session);
      this.#sampling.release(session);
    }
  }

  // "" or why the server cannot be trusted any more.
  setSampling(message: Sampling): string {
    return this.#sampling.onMessage(message, this.#manifest.vocabulary);
  }

  async releaseAll(): Promise<void> {
    this.#stages.clear();
    this.#sampling.clear();
    this.#engine?.releaseAll();
    await this.#unloadExcept([]);
  }

  async step(frame: Frame, arrival: number): Promise<ComputedStep> {
    const { type, epoch, stage } = frame.header;
    const begin = this.#now();
    const layers = this.#stages.layersOf(epoch, stage);
    if (type !== FrameType.step || !this.#engine || !layers) {
      throw new EngineError(
        "invalid_argument",
        `Stage ${stage} of epoch ${epoch} is not committed on this worker.`,
      );
    }
    const { packs } = this.#engine;
    const input = decodeStep(frame, this.#manifest, layers, this.#sampling, packs);
    const computeBegin = this.#now();
    const output = await this.#engine.step(input);
    const computeMs = this.#now() - computeBegin;
    const times = { queueUs: (begin - arrival) * 1000, computeUs: computeMs * 1000 };
    return { message: encodeResult(frame, this.#manifest, layers, output, times), computeMs };
  }

  // Tells some tokens at a time; the result are the last ones, once nothing can fail any more.
  async generate(
    frame: GenerateFrame,
    isWanted: () => boolean,
    onTokens: (tokens: readonly number[]) => void,
  ): Promise<readonly number[]> {
    const layers = this.#stages.layersOf(frame.epoch, 0);
    const isWhole = layers?.first === 0 && layers.end === this.#manifest.layers.length;
    if (!this.#engine?.generate || !isWhole) {
      throw new EngineError(
        "invalid_argument",
        `The whole model of epoch ${frame.epoch} is not committed on this worker, or its engine ` +
          `cannot choose tokens.`,
      );
    }
    if (!isWanted()) return [];
    let made = 0;
    let last: readonly number[] = [];
    await this.#engine.generate(layers, {
      session: frame.session,
      generation: frame.generation,
      firstPosition: frame.position,
      firstToken: frame.token,
      count: frame.count,
      interval: frame.interval,
      pipelined: true,
      sampling: samplingOf(frame),
      stopTokens: frame.stopTokens,
      onTokens: (tokens) => {
        made += tokens.length;
        const isLast = made >= frame.count || frame.stopTokens.includes(tokens.at(-1)!);
        if (isLast) last = tokens;
        else onTokens(tokens);
        return isWanted();
      },
    });
    return last;
  }

  async dispose(): Promise<void> {
    await this.#engine?.dispose();
  }

  // The engine, made when it is first needed: a tab that only waits loads no library.
  async #loadedEngine(): Promise<StageEngine> {
    this.#engine ??= await this.#makeEngine(this.#manifest);
    return this.#engine;
  }

  async #unloadExcept(keep: readonly LayerRange[]): Promise<void> {
    for (let layer = 0; layer < this.#manifest.layers.length; ++layer) {
      const isKept = keep.some(({ first, end }) => first <= layer && layer < end);
      if (!isKept) await this.#engine?.unload({ first: layer, end: layer + 1 });
    }
  }
}

function samplingOf(frame: GenerateFrame): NonNullable<GenerateRequest["sampling"]> {
  return { ...frame, logitBias: new Map(frame.biases), seen: new Map(frame.seen) };
}
