// One connection's worth of work: answers the orchestrator's messages (docs/protocol.md) the way
// src/worker/native_worker.cc does. It has no socket: its owner hands it messages and sends what it
// gives out.
//
// Two queues: downloads, and everything that touches the engine, in the order of the messages.
// Steps of the active plan go on while a new stage is downloaded. A ping is answered at once.
import { EngineError, KernelRefusedError } from "@weft/engine";
import type { LayerRange, StageEngine } from "@weft/engine";
import {
  WholeModel,
  decodeFrame,
  decodeGeneration,
  decodeServerMessage,
  encodeGeneration,
  encodeWorkerMessage,
  isGenerationFrame,
  kControlByte,
} from "@weft/wire";
import type {
  Frame,
  GenerateFrame,
  GenerationFrame,
  Init,
  MeasureSpeed,
  PrepareStage,
  Retire,
  ServerMessage,
} from "@weft/wire";

import { Downloader } from "./downloader.ts";
import { connectMessage, fetchManifest, messageOf, versionMismatch } from "../joining/joining.ts";
import type { Ending, Offer, WorkerKind } from "../joining/joining.ts";
import type { Manifest } from "../download/manifest.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { StageHost } from "../stage/stageHost.ts";
import type { StatusBoard } from "./statusBoard.ts";
import { TaskQueue } from "./taskQueue.ts";

const kMaxMeasureRuns = 64;
const kProbeLimitMs = 2000;
// An engine that fails so often in a row has lost its device (a GPU that was reset, say): the next
// connection makes a new one.
const kMostEngineFailures = 3;

export interface SessionOptions extends Offer {
  readonly makeEngine: (manifest: Manifest) => Promise<StageEngine>;
  // The package has no programs, and this engine runs nothing else; the owner ends the session.
  readonly onNotLowered: () => void;
  // Whether the user wants the whole model here; and the server has ended that.
  readonly wantsWhole: () => boolean;
  readonly onWholeEnded: () => void;
  // The driver refuses a kernel; the owner ends the session and goes on with another engine.
  readonly onKernelRefused: (why: string) => void;
  // What the card says beside the state.
  readonly note: string;
  readonly measureDownload: (byteCount: number, limitMs: number) => Promise<number>;
  readonly source: PackageSource;
  readonly board: StatusBoard;
  readonly now: () => number; // ms
  readonly send: (message: Uint8Array<ArrayBuffer>) => void;
  readonly finish: (ending: Ending) => void; // called once; the owner closes the connection
}

// What exists once Connect was sent.
interface Joined {
  readonly init: Init;
  readonly layerCount: number;
  readonly host: StageHost;
  readonly downloader: Downloader;
}

export class WorkerSession {
  readonly #options: SessionOptions;
  readonly #downloads: TaskQueue;
  readonly #compute: TaskQueue;
  #initSeen = false;
  #joined: Joined | null = null;
  #fault = ""; // the last failure, until a stage is committed
  #engineFailures = 0; // in a row
  #ended = false;
  readonly #wanted = new Set<number>(); // sequences of Generate frames that somebody waits for

  constructor(options: SessionOptions) {
    this.#options = options;
    const onError = (error: unknown): void =>
      this.#finish("retry", `The worker failed: ${messageOf(error)}`);
    this.#downloads = new TaskQueue(onError);
    this.#compute = new TaskQueue(onError);
  }

  // Never blocks.
  onMessage(message: Uint8Array): void {
    if (this.#ended) return;
    const arrival = this.#options.now();
    try {
      if (isGenerationFrame(message)) return this.#onGeneration(decodeGeneration(message), arrival);
      if (message[0] !== kControlByte) {
        const frame = decodeFrame(message);
        this.#compute.push(() => this.#onFrame(frame, arrival));
        return;
      }
      const control = decodeServerMessage(message);
      if (control.kind.case === "ping") {
        return this.#send({ case: "pong", value: { nonce: control.kind.value.nonce } });
      }
      this.#compute.push(() => this.#onControl(control));
    } catch (error) {
      this.#finish("retry", `The server sent what cannot be read: ${messageOf(error)}`);
    }
  }

  sayLeaving(reason: string): void {
    this.#send({ case: "leaving", value: { reason } });
  }

  // Before Connect it is left to #join.
  sayRunHere(isWanted: boolean): void {
    if (!this.#joined) return;
    this.#options.send(encodeGeneration({ kind: "runHere", isWanted }));
  }

  // The connection is gone: settles when everything is freed.
  async close(): Promise<void> {
    this.#ended = true;
    await Promise.all([this.#downloads.stop(), this.#compute.stop()]);
    await this.#joined?.host.dispose();
  }

  async #onControl(message: ServerMessage): Promise<void> {
    const { kind } = message;
    if (kind.case === "init") return this.#onInit(kind.value);
    if (kind.case === "refused") {
      const mayRetry = kind.value.code === "unavailable";
      return this.#finish(mayRetry ? "retry" : "refused", kind.value.message);
    }
    const joined = this.#joined;
    if (!joined) {
      return this.#finish("retry", "The server sent work before Init was answered.");
    }
    switch (kind.case) {
      case "downloadLayers":
        return this.#onDownloadLayers(joined, kind.value.layers);
      case "measureSpeed":
        return this.#onMeasureSpeed(joined, kind.value);
      case "prepareStage":
        return this.#onPrepareStage(joined, kind.value);
      case "commitStage":
        return this.#onCommitStage(joined, kind.value.epoch);
      case "retire":
        return await this.#onRetire(joined, kind.value);
      case "invalidateSessions":
        return joined.host.releaseSessions(kind.value.sessions);
      case "sampling": {
        const problem = joined.host.setSampling(kind.value);
        return problem === "" ? undefined : this.#finish("retry", problem);
      }
      case "release":
        await joined.host.releaseAll();
        return this.#settle();
      default:
        return this.#finish(
          "refused",
          "The server sent a control message that this page does not know: reload the page.",
        );
    }
  }

  #onInit(init: Init): void {
    if (this.#initSeen) return this.#finish("retry", "The server sent Init twice.");
    this.#initSeen = true;
    const mismatch = versionMismatch(init);
    if (mismatch) return this.#finish(mismatch.kind, mismatch.message);
    this.#options.board.set({ modelName: init.modelName });
    this.#downloads.push(() => this.#join(init));
  }

  // Fetching the manifest and measuring the link take a while: in the queue of downloads.
  async #join(init: Init): Promise<void> {
    const { board, source, makeEngine, measureDownload, now } = this.#options;
    board.set({ phase: "measuring", message: "Measuring the connection." });
    const manifest = await fetchManifest(init, source);
    if ("kind" in manifest) return this.#finish(manifest.kind, manifest.message);
    if (!this.#options.needsOnnx && !manifest.lowered) return this.#options.onNotLowered();
    const rate = await measureDownload(Number(init.probeBytes), kProbeLimitMs);
    if (this.#ended) return;
    this.#joined = {
      init,
      layerCount: manifest.layers.length,
      host: new StageHost(manifest, source, makeEngine, now),
      downloader: new Downloader(source, board, now, (kind) => this.#send(kind)),
    };
    this.#send(connectMessage(init, manifest, this.#options, source.downloadedLayers(), rate));
    if (this.#options.wantsWhole()) this.sayRunHere(true);
    this.#settle();
  }

  #onGeneration(frame: GenerationFrame, arrival: number): void {
    switch (frame.kind) {
      case "generate":
        this.#wanted.add(frame.sequence);
        return this.#compute.push(() => this.#onGenerate(frame, arrival));
      case "stop": // at once: what it stops computes
        return void this.#wanted.delete(frame.sequence);
      case "wholeModel":
        return this.#onWholeModel(frame.state);
      default:
        return this.#finish("retry", "The server sent a frame that only workers send.");
    }
  }

  #onWholeModel(state: WholeModel): void {
    const { board, onWholeEnded } = this.#options;
    if (board.current.whole === "here" && state !== WholeModel.here) onWholeEnded();
    const whole =
      state === WholeModel.here ? "here" : state === WholeModel.fits ? "possible" : "no";
    board.set({ whole });
  }

  async #onGenerate(frame: GenerateFrame, arrival: number): Promise<void> {
    const { sequence, epoch } = frame;
    const { board, now, send } = this.#options;
    board.set({ phase: "computing", message: "Computing." });
    try {
      if (!this.#joined) throw new EngineError("invalid_argument", "No work was given here yet.");
      let since = Math.max(arrival, now());
      const tell = (tokens: readonly number[], isLast: boolean): void => {
        const computeMs = now() - since;
        since = now();
        const computeUs = computeMs * 1000;
        send(encodeGeneration({ kind: "tokens", sequence, epoch, isLast, computeUs, tokens }));
        if (tokens.length > 0) board.addStep(tokens.length, computeMs);
      };
      const isWanted = (): boolean => !this.#ended && this.#wanted.has(sequence);
      const { host } = this.#joined;
      tell(await host.generate(frame, isWanted, (tokens) => tell(tokens, false)), true);
      this.#engineFailures = 0;
    } catch (error) {
      const { code, message } = faultOf(error);
      this.#send({ case: "stepFailed", value: { sequence, epoch, stage: 0, code, message } });
      this.#countFailure(code, message);
    }
    this.#wanted.delete(sequence);
    this.#settle();
  }

  // null (and the end) when the range is not one of this model.
  #checked(joined: Joined, range: LayerRange | undefined): LayerRange | null {
    const first = range?.first ?? 0;
    const end = range?.end ?? 0;
    if (first < end && end <= joined.layerCount) return { first, end };
    this.#finish(
      "retry",
      `The server named layers ${first} to ${end} of a model with ${joined.layerCount}.`,
    );
    return null;
  }

  #onDownloadLayers(joined: Joined, layers: readonly number[]): void {
    for (const layer of layers) {
      const range = this.#checked(joined, { first: layer, end: layer + 1 });
      if (!range) return;
      this.#downloads.push(async () => {
        await this.#download(joined, range, 0);
        this.#settle();
      });
    }
  }

  #onMeasureSpeed(joined: Joined, message: MeasureSpeed): void {
    const ranges: LayerRange[] = [];
    for (const range of message.ranges) {
      const checked = this.#checked(joined, range);
      if (!checked) return;
      ranges.push(checked);
    }
    const runs = Math.min(Math.max(message.runs, 1), kMaxMeasureRuns);
    this.#downloads.push(async () => {
      for (const range of ranges) if (!(await this.#download(joined, range, 0))) return;
      this.#compute.push(() => this.#measure(joined, ranges, runs));
    });
  }

  async #measure(joined: Joined, ranges: readonly LayerRange[], runs: number): Promise<void> {
    this.#options.board.set({ phase: "measuring", message: "Measuring this device's speed." });
    try {
      const timings = (await joined.host.measure(ranges, runs)).map(({ layers, runUs }) => ({
        layers,
        runUs: runUs.map((us) => BigInt(us)),
      }));
      this.#send({ case: "measured", value: { timings } });
      this.#engineFailures = 0;
    } catch (error) {
      this.#onFailure(0, error);
    }
    this.#settle();
  }

  #onPrepareStage(joined: Joined, { epoch, stage, layers }: PrepareStage): void {
    const range = this.#checked(joined, layers);
    if (!range) return;
    joined.host.prepare(epoch, stage, range);
    this.#downloads.push(async () => {
      if (!(await this.#download(joined, range, epoch))) return;
      this.#compute.push(() => this.#loadStage(joined, epoch));
    });
  }

  async #loadStage(joined: Joined, epoch: number): Promise<void> {
    const { board } = this.#options;
    board.set({ phase: "loading", message: "Loading its layers." });
    try {
      const loaded = await joined.host.load(epoch, joined.init, (doneBytes, totalBytes) => {
        const [done, total] = [doneBytes, totalBytes].map((bytes) => (bytes / 1e6).toFixed(0));
        board.set({ phase: "loading", message: `Loading its layers: ${done} of ${total} MB.` });
      });
      this.#engineFailures = 0;
      if (loaded) {
        const { weightFactor, usedBytes } = loaded;
        this.#send({
          case: "prepared",
          value: { epoch, weightFactor, usedBytes: BigInt(usedBytes) },
        });
      }
    } catch (error) {
      this.#onFailure(epoch, error);
    }
    this.#settle();
  }

  // Of loading or measuring.
  #onFailure(epoch: number, error: unknown): void {
    if (error instanceof KernelRefusedError) return this.#options.onKernelRefused(error.message);
    this.#sendFailed(epoch, error);
    this.#countFailure(faultOf(error).code, messageOf(error));
  }

  #onCommitStage(joined: Joined, epoch: number): void {
    try {
      joined.host.commit(epoch);
      this.#fault = "";
      this.#send({ case: "committed", value: { epoch } });
    } catch (error) {
      this.#sendFailed(epoch, error);
    }
    this.#settle();
  }

  async #onRetire(joined: Joined, { keep }: Retire): Promise<void> {
    const ranges: LayerRange[] = [];
    for (const range of keep) {
      const checked = this.#checked(joined, range);
      if (!checked) return;
      ranges.push(checked);
    }
    await joined.host.retire(ranges);
    this.#settle();
  }

  async #onFrame(frame: Frame, arrival: number): Promise<void> {
    const { sequence, epoch, stage, rows } = frame.header;
    const { board } = this.#options;
    const layers = this.#joined?.host.layersOf(epoch, stage);
    if (layers) board.set({ phase: "computing", message: "Computing." });
    try {
      if (!this.#joined) throw new EngineError("invalid_argument", "No work was given here yet.");
      const { message, computeMs } = await this.#joined.host.step(frame, arrival);
      this.#options.send(message);
      this.#engineFailures = 0;
      board.addStep(rows, computeMs);
    } catch (error) {
      const { code, message } = faultOf(error);
      this.#send({ case: "stepFailed", value: { sequence, epoch, stage, code, message } });
      this.#countFailure(code, message);
    }
    this.#settle();
  }

  // False when it failed, which was reported, or when the session is over.
  async #download(joined: Joined, range: LayerRange, epoch: number): Promise<boolean> {
    try {
      await joined.downloader.download(range);
      return !this.#ended;
    } catch (error) {
      if (!this.#ended) this.#sendFailed(epoch, error);
      return false;
    }
  }

  // The phase that is left when nothing is going on.
  #settle(): void {
    const joined = this.#joined;
    if (this.#ended || !joined) return;
    const { board, source } = this.#options;
    const active = joined.host.active();
    board.set({
      layers: active ? [active.first, active.end] : null,
      usedBytes: joined.host.usedBytes() + source.memoryBytes,
      cachedBytes: source.cachedBytes,
    });
    if (joined.downloader.isBusy) return;
    const fault = [this.#fault, this.#options.note].map((text) => text && ` ${text}`).join("");
    if (active) {
      board.set({ phase: "ready", message: `Ready: its layers are loaded.${fault}` });
    } else {
      board.set({ phase: "idle", message: `Connected, waiting for work.${fault}` });
    }
  }

  #send(kind: WorkerKind): void {
    this.#options.send(encodeWorkerMessage(kind));
  }

  #sendFailed(epoch: number, error: unknown): void {
    const { code, message } = faultOf(error);
    this.#fault = message;
    this.#send({ case: "failed", value: { epoch, code, message } });
    this.#settle();
  }

  // Any other code is about what was asked, not about the engine.
  #countFailure(code: string, message: string): void {
    if (code !== "unavailable" || ++this.#engineFailures < kMostEngineFailures) return;
    this.#finish("retry", `The engine has stopped working: ${message}`);
  }

  #finish(kind: Ending["kind"], message: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#options.finish({ kind, message });
  }
}

function faultOf(error: unknown): { code: string; message: string } {
  const code = error instanceof EngineError ? error.code : "unavailable";
  return { code, message: messageOf(error) };
}
