// The engine and how its sessions sample: loads, measures, computes, forgets. One
// verb at a time, in the order that membership gives. Failures are EngineErrors.
import { EngineError, kNothingHeld } from "@weft/engine";
import type { GenerateRequest, LayerRange, SessionFork, StageEngine } from "@weft/engine";
import type { Frame, GenerateFrame, Init, Sampling } from "@weft/wire";

import { ExpertBlobs } from "../download/expertBlobs.ts";
import { type Manifest, sharedBlobs } from "../download/manifest.ts";
import type { PackageSource } from "../download/packageSource.ts";
import type { HeldBinding, Outcome, ProbeAnswer, Work } from "../membership/events.ts";
import { ExpertHost } from "./expertHost.ts";
import { answerProbe, measureRanges } from "./measure.ts";
import { memoryFactor } from "./memoryFactor.ts";
import { SamplingTable } from "./samplingTable.ts";
import { decodeStep, encodeResult } from "./stepCodec.ts";

export interface Installed {
  readonly weightFactor: number; // as Prepared reports it
  readonly usedBytes: number;
}

export interface ComputedStep {
  readonly message: Uint8Array<ArrayBuffer>; // the result frame
  readonly computeMs: number;
}

// Generates that run together (engine TokenSource), and who is told of them.
export interface TokenBatch {
  readonly take: () => readonly GenerateFrame[];
  readonly pauses: () => boolean;
  // False: nobody wants the rest of it.
  readonly onTokens: (
    frame: GenerateFrame,
    tokens: readonly number[],
    isLast: boolean,
    ms: number,
  ) => boolean;
  readonly onFailed: (frame: GenerateFrame, error: unknown) => void;
}

export class StageHost {
  readonly #manifest: Manifest;
  readonly #source: PackageSource;
  readonly #makeEngine: (manifest: Manifest) => Promise<StageEngine>;
  readonly #now: () => number;
  readonly #sampling = new SamplingTable();
  #stepEndedAt = 0; // the last one
  readonly blobsOfExperts: ExpertBlobs;
  readonly experts: ExpertHost;
  #engine: StageEngine | null = null;
  #making: Promise<StageEngine> | null = null;

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
    this.blobsOfExperts = new ExpertBlobs(source);
    const engine = (): Promise<StageEngine> => this.#loadedEngine();
    this.experts = new ExpertHost(manifest.layers.length, this.blobsOfExperts, engine);
  }

  // Of the offer, experts included.
  usedBytes(): number {
    if (!this.#engine) return 0;
    const { weightBytes, kvBytes, scratchBytes } = this.#engine.memory();
    return Math.ceil(weightBytes + kvBytes + scratchBytes);
  }

  // What it loads stays until `keep` says otherwise.
  async measure(
    { ranges, runs, probes }: Extract<Work, { kind: "measureSpeed" }>,
  ): Promise<Extract<Outcome, { kind: "measured" }>> {
    const engine = await this.#loadedEngine();
    for (const layers of ranges) await engine.load(layers, this.#source);
    for (const { layers } of probes) await engine.load(layers, this.#source);
    const timings = await measureRanges(engine, ranges, this.#manifest, runs, this.#now);
    const answers: ProbeAnswer[] = [];
    for (const probe of probes) answers.push(await answerProbe(engine, probe, this.#manifest));
    return { kind: "measured", timings, answers };
  }

  // Brings a layer's weights to the engine beside steps, where there is one that can: install()
  // then takes them over. What fails, install() meets and says.
  async bringAhead(layer: number): Promise<void> {
    await this.#engine?.loadAhead?.(layer, this.#source).catch(() => undefined);
  }

  // Keeps what is loaded of the range, of which `layers` are the last or not. `onBytes` is told of
  // what reaches the engine.
  async install(
    layers: LayerRange,
    isLast: boolean,
    init: Init,
    onBytes: (bytes: number) => void,
  ): Promise<Installed> {
    const engine = await this.#loadedEngine();
    engine.planPositions?.(init.contextLength * init.sessionCount);
    await engine.load(layers, this.#source, onBytes, !isLast);
    const measured = engine.weightFactor?.() ?? this.#measuredFactor(engine);
    return {
      weightFactor: memoryFactor(this.#manifest, init, measured, engine),
      usedBytes: this.usedBytes() - this.experts.usedBytes,
    };
  }

  // Bytes that the engine holds for one byte of the weights that are loaded.
  #measuredFactor(engine: StageEngine): number {
    let loadedBytes = 0;
    const isLoaded = (layer: number): boolean => engine.isLoaded({ first: layer, end: layer + 1 });
    const shared = sharedBlobs(this.#manifest);
    for (const [layer, { weightBytes }] of this.#manifest.layers.entries()) {
      if (!isLoaded(layer)) continue;
      const { with: other, byteCount } = shared[layer]!;
      loadedBytes += weightBytes - (other !== null && isLoaded(other) ? byteCount : 0);
    }
    const heldBytes = engine.memory().weightBytes - this.experts.usedBytes;
    return loadedBytes === 0 ? 1 : heldBytes / loadedBytes;
  }

  // Unloads everything else.
  async keep(ranges: readonly LayerRange[]): Promise<void> {
    for (let layer = 0; layer < this.#manifest.layers.length; ++layer) {
      const isKept = ranges.some(({ first, end }) => first <= layer && layer < end);
      if (!isKept) await this.#engine?.unload({ first: layer, end: layer + 1 });
    }
  }

  // What the layers of these bindings hold of these sessions.
  takeStock(
    bindings: Extract<Work, { kind: "takeStock" }>["bindings"],
    sessions: readonly number[],
  ): HeldBinding[] {
    return bindings.map((binding) => {
      const claims = sessions
        .map((session) => {
          const held = this.#engine?.heldSession(session, binding.layers);
          return { session, ...(held ?? kNothingHeld) };
        })
        .filter(({ positions }) => positions > 0);
      return {
        ...binding,
        sessions: claims.map(({ session }) => session),
        positions: claims.map(({ positions }) => positions),
        claims,
      };
    });
  }

  releaseSessions(sessions: readonly number[]): void {
    for (const session of sessions) {
      this.#engine?.release(session);
      this.#sampling.release(session);
    }
  }

  // What cannot be forked changes nothing, and the next step of the session meets it.
  async fork(layers: LayerRange, fork: SessionFork): Promise<void> {
    await this.#engine?.fork(layers, fork).catch(() => undefined);
  }

  // "" or why the server cannot be trusted any more.
  takeSampling(message: Sampling): string {
    return this.#sampling.onMessage(message, this.#manifest.vocabulary);
  }

  async releaseAll(): Promise<void> {
    this.#sampling.clear();
    this.#engine?.releaseAll();
    await this.experts.clear();
    await this.keep([]);
  }

  // `arrival`: when the frame came. Behind a step that has not ended yet its own time begins when
  // that one ends, so that the times of steps add up to what the engine was busy.
  async step(frame: Frame, layers: LayerRange, arrival: number): Promise<ComputedStep> {
    if (!this.#engine) {
      throw new EngineError("invalid_argument", "No layer is loaded on this worker.");
    }
    const begin = this.#now();
    const { packs } = this.#engine;
    const input = decodeStep(frame, this.#manifest, layers, this.#sampling, packs);
    const computeBegin = this.#now();
    const output = await this.#engine.step(input);
    const before = this.#stepEndedAt;
    this.#stepEndedAt = this.#now();
    const computeMs = this.#stepEndedAt - Math.max(computeBegin, before);
    const queueMs = Math.max(begin, before) - arrival;
    const times = { queueUs: queueMs * 1000, computeUs: computeMs * 1000 };
    return { message: encodeResult(frame, this.#manifest, layers, output, times), computeMs };
  }

  // Until all have ended, or `pauses` says so.
  async generate(layers: LayerRange, batch: TokenBatch): Promise<void> {
    if (!this.#engine?.generateAll) {
      throw new EngineError(
        "invalid_argument",
        "The engine of this worker cannot choose tokens by itself.",
      );
    }
    await this.#engine.generateAll(layers, {
      take: () => batch.take().map((frame) => requestOf(frame, batch)),
      pauses: batch.pauses,
    });
  }

  async dispose(): Promise<void> {
    const engine = await this.#making?.catch(() => null);
    await engine?.dispose();
  }

  // Makes the engine while layers are on their way to it. What fails is said by who needs it.
  warmUp(): void {
    this.#loadedEngine().catch(() => undefined);
  }

  // The engine, made when it is first needed: a tab that only waits loads no library.
  async #loadedEngine(): Promise<StageEngine> {
    this.#making ??= this.#makeEngine(this.#manifest);
    try {
      this.#engine = await this.#making;
    } catch (error) {
      this.#making = null;
      throw error;
    }
    return this.#engine;
  }
}

function requestOf(frame: GenerateFrame, { onTokens, onFailed }: TokenBatch): GenerateRequest {
  return {
    session: frame.session,
    generation: frame.generation,
    firstPosition: frame.position,
    firstToken: frame.token,
    count: frame.count,
    interval: frame.interval,
    pipelined: true,
    sampling: { ...frame, logitBias: new Map(frame.biases), seen: new Map(frame.seen) },
    stopTokens: frame.stopTokens,
    onTokens: (tokens, isLast, ms) => onTokens(frame, tokens, isLast, ms),
    onFailed: (error) => onFailed(frame, error),
  };
}
