// The engine and how its sessions sample: loads, measures, computes, forgets. One
// verb at a time, in the order that membership gives. Failures are EngineErrors.
//
// Layers without their experts, which a hub runs, are in an engine of their own. The same layers
// may be whole in the first one: they were measured, or serve until the hub does. Both engines
// share the offer.
import { EngineError, kNothingHeld } from "@weft/engine";
import type { GenerateRequest, LayerRange, SessionFork, StageEngine } from "@weft/engine";
import { weightBytesOf } from "@weft/engine/program/hubProgram.ts";
import { blobsOf } from "@weft/engine/program/shards.ts";
import type { GenerateFrame, Init, Sampling } from "@weft/wire";

import { ExpertBlobs } from "../download/expertBlobs.ts";
import { type Manifest, sharedBlobs } from "../download/manifest.ts";
import type { PackageSource } from "../download/packageSource.ts";
import type { HeldBinding, Outcome, ProbeAnswer, Work } from "../membership/events.ts";
import { ExpertHost } from "./expertHost.ts";
import { HubExchange } from "./hubExchange.ts";
import type { AskForRows } from "./hubExchange.ts";
import { LazyEngine } from "./lazyEngine.ts";
import { answerProbe, measureRanges } from "./measure.ts";
import { memoryFactor } from "./memoryFactor.ts";
import { SamplingTable } from "./samplingTable.ts";
import { decodeStep, encodeResult } from "./stepCodec.ts";

// `otherBytes`: of the offer, by the other engine of the same host.
export type MakeEngine = (
  manifest: Manifest,
  otherBytes: () => number,
) => Promise<StageEngine>;

type StepToRun = Pick<
  Extract<Work, { kind: "runStep" }>,
  "frame" | "layers" | "arrival" | "isHub"
>;

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
  readonly #now: () => number;
  readonly #sampling = new SamplingTable();
  #stepEndedAt = 0; // the last one
  readonly blobsOfExperts: ExpertBlobs;
  readonly experts: ExpertHost;
  readonly #whole: LazyEngine; // and of experts for hubs
  readonly #hub: LazyEngine;
  readonly #hubBytes = new Map<number, number>(); // of weights in the package, by layer of a hub

  constructor(
    manifest: Manifest,
    source: PackageSource,
    makeEngine: MakeEngine,
    now: () => number,
  ) {
    this.#manifest = manifest;
    this.#source = source;
    this.#now = now;
    this.#whole = new LazyEngine(() => makeEngine(manifest, () => this.#hub.heldBytes));
    this.#hub = new LazyEngine(() => makeEngine(manifest, () => this.#whole.heldBytes));
    this.blobsOfExperts = new ExpertBlobs(source);
    const engine = (): Promise<StageEngine> => this.#whole.get();
    this.experts = new ExpertHost(manifest.layers.length, this.blobsOfExperts, engine);
  }

  // Of the offer, experts included.
  usedBytes(): number {
    return Math.ceil(this.#whole.heldBytes + this.#hub.heldBytes);
  }

  // What it loads stays until `keep` says otherwise.
  async measure(
    { ranges, runs, probes }: Extract<Work, { kind: "measureSpeed" }>,
  ): Promise<Extract<Outcome, { kind: "measured" }>> {
    const engine = await this.#whole.get();
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
    await this.#whole.made?.loadAhead?.(layer, this.#source).catch(() => undefined);
  }

  // Keeps what is loaded of the range, of which `layers` are the last or not. `onBytes` is told of
  // what reaches the engine.
  async install(
    layers: LayerRange,
    isLast: boolean,
    init: Init,
    onBytes: (bytes: number) => void,
  ): Promise<Installed> {
    const engine = await this.#whole.get();
    engine.planPositions?.(init.contextLength * init.sessionCount);
    await engine.load(layers, this.#source, onBytes, !isLast);
    const ofExperts = this.experts.usedBytes;
    const weightBytes = engine.memory().weightBytes - ofExperts;
    const bytesOf = (layer: number): number => this.#manifest.layers[layer]!.weightBytes;
    const measured = engine.weightFactor?.() ?? this.#factor(engine, weightBytes, bytesOf);
    return {
      weightFactor: memoryFactor(this.#manifest, init, measured, engine),
      usedBytes: Math.ceil(this.#whole.heldBytes - ofExperts),
    };
  }

  // The same of layers without their experts.
  async installHub(
    { first, end }: LayerRange,
    init: Init,
    onBytes: (bytes: number) => void,
  ): Promise<Installed> {
    const engine = await this.#hub.get();
    if (!engine.loadProgram) {
      throw new EngineError("unsupported", "The engine of this worker runs no hubs.");
    }
    engine.planPositions?.(init.contextLength * init.sessionCount);
    for (let layer = first; layer < end; ++layer) {
      if (engine.isLoaded({ first: layer, end: layer + 1 })) continue;
      const program = await this.blobsOfExperts.hubProgram(layer);
      await engine.loadProgram(program, this.#source, onBytes);
      this.#hubBytes.set(layer, weightBytesOf(program));
      await this.#source.dropCopies(blobsOf(program));
    }
    const bytesOf = (layer: number): number => this.#hubBytes.get(layer)!;
    const measured = this.#factor(engine, engine.memory().weightBytes, bytesOf);
    return {
      weightFactor: memoryFactor(this.#manifest, init, measured, engine),
      usedBytes: Math.ceil(this.#hub.heldBytes),
    };
  }

  // Bytes of `heldBytes` for one byte of the weights of the layers that the engine has loaded.
  #factor(engine: StageEngine, heldBytes: number, bytesOf: (layer: number) => number): number {
    let loadedBytes = 0;
    const isLoaded = (layer: number): boolean => engine.isLoaded({ first: layer, end: layer + 1 });
    for (const [layer, { with: other, byteCount }] of sharedBlobs(this.#manifest).entries()) {
      if (!isLoaded(layer)) continue;
      const bytes = bytesOf(layer);
      const hasBoth = other !== null && isLoaded(other);
      loadedBytes += bytes - (hasBoth ? Math.min(bytes, byteCount) : 0);
    }
    return loadedBytes === 0 ? 1 : heldBytes / loadedBytes;
  }

  // Unloads everything else; `hubs` are ranges of layers without their experts.
  async keep(ranges: readonly LayerRange[], hubs: readonly LayerRange[]): Promise<void> {
    const layerCount = this.#manifest.layers.length;
    await this.#whole.keep(ranges, layerCount);
    await this.#hub.keep(hubs, layerCount);
  }

  #engineOf(isHub: boolean): LazyEngine {
    return isHub ? this.#hub : this.#whole;
  }

  // What the layers of these bindings hold of these sessions.
  takeStock(
    bindings: Extract<Work, { kind: "takeStock" }>["bindings"],
    sessions: readonly number[],
  ): HeldBinding[] {
    return bindings.map(({ id, stage, layers, isHub }) => {
      const engine = this.#engineOf(isHub).made;
      const claims = sessions
        .map((session) => {
          const held = engine?.heldSession(session, layers) ?? kNothingHeld;
          return { session, ...held };
        })
        .filter(({ positions }) => positions > 0);
      return {
        id,
        stage,
        layers,
        sessions: claims.map(({ session }) => session),
        positions: claims.map(({ positions }) => positions),
        claims,
      };
    });
  }

  releaseSessions(sessions: readonly number[]): void {
    for (const session of sessions) {
      for (const { made } of [this.#whole, this.#hub]) made?.release(session);
      this.#sampling.release(session);
    }
  }

  // What cannot be forked changes nothing, and the next step of the session meets it.
  async fork(layers: LayerRange, isHub: boolean, fork: SessionFork): Promise<void> {
    await this.#engineOf(isHub).made?.fork(layers, fork).catch(() => undefined);
  }

  // "" or why the server cannot be trusted any more.
  takeSampling(message: Sampling): string {
    return this.#sampling.onMessage(message, this.#manifest.vocabulary);
  }

  async releaseAll(): Promise<void> {
    this.#sampling.clear();
    for (const { made } of [this.#whole, this.#hub]) made?.releaseAll();
    await this.experts.clear();
    await this.keep([], []);
  }

  // `arrival`: when the frame came. Behind a step that has not ended yet its own time begins when
  // that one ends, so that the times of steps add up to what the engine was busy. A hub's step
  // stops at its layers' experts, and `ask` gives their rows; the time that these take is not
  // computing.
  async step(
    { frame, layers, arrival, isHub }: StepToRun,
    ask: AskForRows,
  ): Promise<ComputedStep> {
    const engine = this.#engineOf(isHub).made;
    if (!engine) {
      throw new EngineError("invalid_argument", "No layer is loaded on this worker.");
    }
    const begin = this.#now();
    const { packs } = engine;
    const input = decodeStep(frame, this.#manifest, layers, this.#sampling, packs);
    const away = isHub ? new HubExchange(ask, this.#now) : null;
    const computeBegin = this.#now();
    const output = await engine.step(away ? { ...input, exchange: away.exchange } : input);
    const waitedMs = away?.waitedMs ?? 0;
    const before = this.#stepEndedAt;
    this.#stepEndedAt = this.#now();
    const busyMs = this.#stepEndedAt - Math.max(computeBegin, before) - waitedMs;
    const computeMs = Math.max(0, busyMs);
    const queueMs = Math.max(begin, before) - arrival + waitedMs;
    const times = { queueUs: queueMs * 1000, computeUs: computeMs * 1000 };
    return { message: encodeResult(frame, this.#manifest, layers, output, times), computeMs };
  }

  // Until all have ended, or `pauses` says so.
  async generate(layers: LayerRange, batch: TokenBatch): Promise<void> {
    const engine = this.#whole.made;
    if (!engine?.generateAll) {
      throw new EngineError(
        "invalid_argument",
        "The engine of this worker cannot choose tokens by itself.",
      );
    }
    await engine.generateAll(layers, {
      take: () => batch.take().map((frame) => requestOf(frame, batch)),
      pauses: batch.pauses,
    });
  }

  async dispose(): Promise<void> {
    await this.#whole.dispose();
    await this.#hub.dispose();
  }

  // Makes the engine while layers are on their way to it.
  warmUp(isHub: boolean): void {
    this.#engineOf(isHub).warmUp();
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
