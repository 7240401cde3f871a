// The worker of a tab: carries out what membership asks for, and brings back what came of it. It
// has no socket: its owner hands it messages and sends what it gives out. It outlives connections:
// what it holds can be used again by the next one to the same swarm. The counterpart of
// src/worker/native_worker.h.
//
// A tab has one thread for all of this but downloads, which are received, hashed and written to the
// file system on threads of their own (download/blobThreads.ts): a chunk that is handed over costs
// this one some microseconds. Weights go to a GPU beside steps, a few at a time; an engine that
// cannot do that loads layer by layer between steps, so that one that comes meanwhile waits for one
// layer.
import { EngineError, KernelRefusedError } from "@weft/engine";
import { encodeWorkerMessage } from "@weft/wire";
import type { GenerateFrame, Init } from "@weft/wire";

import { Downloader } from "../download/downloader.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { toHex } from "../download/sha256.ts";
import { join } from "../joining/joining.ts";
import type { JoiningParts } from "../joining/joining.ts";
import type {
  Action, Ending, Event, Fault, Outcome, Shown, Successor, Work,
} from "../membership/events.ts";
import { Membership } from "../membership/membership.ts";
import type { RowsAway } from "../stage/hubExchange.ts";
import { StageHost } from "../stage/stageHost.ts";
import type { Installed, MakeEngine } from "../stage/stageHost.ts";
import type { StatusBoard } from "./statusBoard.ts";

export interface TabWorkerOptions extends JoiningParts {
  readonly makeEngine: MakeEngine;
  readonly stepsInFlight: number; // in its engine
  readonly stepsFollow: boolean; // also of one session
  readonly share: number; // of the time, that it may compute; 1: all of it
  // Whether the user wants the whole model here; and the server has ended that.
  readonly wantsWhole: boolean;
  readonly apiKey: string; // said with that wish
  readonly onWholeEnded: () => void;
  // What the card says beside the state.
  readonly note: string;
  readonly source: PackageSource;
  readonly board: StatusBoard;
  readonly now: () => number; // ms
  // The owner closes this connection, and comes again with another one, after a pause where
  // `isLater`. What is held stays.
  readonly hangUp: (reason: string, isLater: boolean) => void;
  readonly knowSuccessors: (successors: readonly Successor[]) => void;
  // Called once; the owner closes the connection, and the worker.
  readonly finish: (ending: Ending) => void;
}

type Fetching = Extract<Action, { kind: "fetch" }>;

const kStopped = "The worker was stopped while its step waited for rows.";

// What a connection is to its worker.
export interface Line {
  readonly send: (message: Uint8Array<ArrayBuffer>) => void;
  // When nothing at all was heard for this time, it is lost.
  readonly limitSilence: (ms: number) => void;
}

// A hub's step that waits for the rows of its experts.
interface WaitingStep {
  readonly resolve: (rows: Float32Array) => void;
  readonly reject: (error: EngineError) => void;
}

// What exists from Init on.
interface Joined {
  readonly init: Init;
  readonly host: StageHost;
}

export class TabWorker {
  readonly #options: TabWorkerOptions;
  readonly #membership: Membership;
  readonly #downloader: Downloader;
  readonly #underWay = new Set<Promise<void>>();
  #line: Line | null = null;
  #wasConnected = false;
  #joined: Joined | null = null;
  #isJoining = false;
  #fetch = new AbortController(); // of the fetch under way
  #brought: Promise<void> = Promise.resolve(); // the last layer that came
  #told: Promise<void> = Promise.resolve(); // the outcome of what was begun last
  #waiting: WaitingStep | null = null;
  // Of the MakeTokens under way: who joins it, whose rest nobody wants, and whether it is to end.
  #joiningTokens: GenerateFrame[] = [];
  readonly #stoppedTokens = new Set<number>();
  #pausesTokens = false;
  #keepTimer: ReturnType<typeof setTimeout> | null = null;
  #isClosed = false;

  constructor(options: TabWorkerOptions) {
    this.#options = options;
    const { needsOnnx, takesExperts } = options.offer;
    const abilities = { needsOnnx, takesExperts, rowsToServer: takesExperts };
    this.#membership = new Membership({ ...options, ...abilities });
    this.#downloader = new Downloader(options.source, options.now, {
      onProgress: (doneBytes, totalBytes) =>
        this.#feed({ kind: "fetchProgressed", doneBytes, totalBytes }),
      onLayer: (layer, byteCount, elapsedUs) => {
        const told = this.#brought.then(() => this.#onLayer(layer, byteCount, elapsedUs));
        this.#brought = told;
      },
    });
  }

  // Of the offer, what engines hold.
  get engineBytes(): number {
    return this.#joined?.host.usedBytes() ?? 0;
  }

  // True from Init until Connect, while the server has nothing to say.
  get isJoining(): boolean {
    return this.#isJoining;
  }

  // There is a connection; its Init comes next.
  connected(line: Line): void {
    this.#line = line;
    if (this.#wasConnected) this.#feed({ kind: "connectedAgain", now: this.#options.now() });
    this.#wasConnected = true;
  }

  // The connection broke: nothing is sent any more.
  lost(): void {
    this.#line = null;
    this.#feed({ kind: "connectionLost", now: this.#options.now() });
  }

  // Whether it waits for a connection with what it holds.
  get isKeeping(): boolean {
    return this.#keepTimer !== null;
  }

  // The swarm that it helped last, in hex; "": none yet.
  get lastSwarm(): string {
    return toHex(this.#membership.lastSwarm ?? new Uint8Array());
  }

  // Never blocks.
  onMessage(message: Uint8Array): void {
    this.#feed({ kind: "messageReceived", message, arrival: this.#options.now() });
  }

  // Draining: steps are answered until the connection is lost.
  sayLeaving(reason: string, isDraining: boolean): void {
    this.#feed({ kind: "leaveAsked", reason, isDraining });
  }

  sayRunHere(isWanted: boolean, apiKey: string): void {
    this.#feed({ kind: "wholeWished", isWanted, apiKey });
  }

  // Settles when everything is freed.
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#refuseRows(kStopped);
    this.#setKeepTimer(null);
    this.#fetch.abort();
    await Promise.all(this.#underWay);
    await this.#joined?.host.dispose();
  }

  #feed(event: Event): void {
    if (this.#isClosed) return;
    for (const action of this.#membership.handle(event)) this.#carryOut(action);
  }

  #carryOut(action: Action): void {
    const { onWholeEnded, hangUp, knowSuccessors, finish } = this.#options;
    switch (action.kind) {
      case "sendControl":
        return this.#line?.send(encodeWorkerMessage(action.message));
      case "sendFrame":
        return this.#line?.send(action.message);
      case "limitSilence":
        return this.#line?.limitSilence(action.ms);
      case "hangUp":
        return hangUp(action.reason, action.isLater);
      case "knowSuccessors":
        return knowSuccessors(action.successors);
      case "keepFor":
        return this.#setKeepTimer(action.ms);
      case "join":
        return this.#start(this.#join(action.init));
      case "fetch":
        return this.#start(this.#runFetch(action));
      case "interruptFetch":
        return this.#fetch.abort();
      case "compute":
        return this.#start(this.#compute(action.work));
      case "joinTokens":
        this.#joiningTokens.push(action.frame);
        return;
      case "stopTokens":
        this.#stoppedTokens.add(action.sequence);
        return;
      case "pauseTokens":
        this.#pausesTokens = true;
        return;
      case "giveRows":
        this.#waiting?.resolve(action.rows);
        this.#waiting = null;
        return;
      case "refuseRows":
        return this.#refuseRows(action.message);
      case "show":
        return this.#show(action.shown);
      case "wholeEnded":
        return onWholeEnded();
      case "finish":
        return finish(action.ending);
    }
  }

  // Rows of a hub's step go away; one step waits at a time.
  #ask(rows: RowsAway): Promise<Float32Array> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      if (this.#isClosed) this.#refuseRows(kStopped);
      else this.#feed({ kind: "rowsWait", ...rows });
    });
  }

  #refuseRows(why: string): void {
    this.#waiting?.reject(new EngineError("unavailable", why));
    this.#waiting = null;
  }

  #setKeepTimer(ms: number | null): void {
    if (this.#keepTimer !== null) clearTimeout(this.#keepTimer);
    const tell = (): void => {
      this.#keepTimer = null;
      this.#feed({ kind: "keptLongEnough", now: this.#options.now() });
    };
    this.#keepTimer = ms === null ? null : setTimeout(tell, ms);
  }

  // None of these rejects: what fails is an event.
  #start(work: Promise<void>): void {
    this.#underWay.add(work);
    void work.then(() => this.#underWay.delete(work));
  }

  async #join(init: Init): Promise<void> {
    this.#isJoining = true;
    const { board, source, makeEngine, now } = this.#options;
    let event: Event;
    try {
      await this.#joined?.host.dispose(); // of another package
      this.#joined = null;
      const joined = await join(init, this.#options);
      if (!("kind" in joined)) {
        this.#joined = { init, host: new StageHost(joined.manifest, source, makeEngine, now) };
        board.set({ layerCount: joined.manifest.layers.length });
      }
      event = { kind: "joined", as: "kind" in joined ? joined : joined.as };
    } catch (error) {
      const message = `The worker failed: ${faultOf(error).message}`;
      event = { kind: "joined", as: { kind: "retry", message } };
    }
    this.#isJoining = false;
    this.#feed(event);
  }

  // A layer of a stage goes on to the engine beside steps; installing it, which they wait for, then
  // only takes it over.
  async #onLayer(layer: number, byteCount: number, elapsedUs: number): Promise<void> {
    const isWanted = this.#membership.isFetchingStage && !this.#fetch.signal.aborted;
    if (isWanted && !this.#isClosed) await this.#joined?.host.bringAhead(layer);
    this.#feed({ kind: "layerFetched", layer, byteCount, elapsedUs });
  }

  async #runFetch({ ranges, experts, isHub }: Fetching): Promise<void> {
    this.#fetch = new AbortController();
    const { signal } = this.#fetch;
    const host = this.#joined?.host;
    host?.warmUp(isHub);
    let fault: Fault | null = null;
    try {
      if (!isHub) await this.#downloader.download(ranges, signal);
      const blobs = isHub
        ? await host?.blobsOfExperts.hubDigests(ranges)
        : await host?.blobsOfExperts.digests(experts);
      await this.#downloader.downloadBlobs(blobs ?? [], signal);
    } catch (error) {
      fault = faultOf(error);
    }
    await this.#brought;
    this.#feed({ kind: "fetchEnded", fault });
  }

  // What was begun first is told first: a step that is refused at once may end before an older one.
  #compute(work: Work): Promise<void> {
    const outcome = this.#outcomeOf(work);
    const told = this.#told.then(async () => {
      this.#feed({ kind: "workDone", outcome: await outcome });
    });
    this.#told = told;
    return told;
  }

  async #outcomeOf(work: Work): Promise<Outcome> {
    try {
      if (!this.#joined) throw new EngineError("unavailable", "Nothing was joined yet.");
      return await this.#done(work, this.#joined);
    } catch (error) {
      return { kind: "failed", fault: faultOf(error) };
    }
  }

  async #done(work: Work, { init, host }: Joined): Promise<Outcome> {
    const { board, now } = this.#options;
    switch (work.kind) {
      case "installLayers":
        return { kind: "installed", ...(await this.#install(work, init, host)) };
      case "measureSpeed":
        return asAnsweredWith(this.#options.share, await host.measure(work));
      case "runStep": {
        const { message, computeMs } = await host.step(work, (rows) => this.#ask(rows));
        board.addStep(work.frame.header.rows, computeMs);
        await this.#rest(computeMs);
        return { kind: "computed", message };
      }
      case "installExperts": {
        const onBytes = (): void =>
          board.set({ phase: "loading", message: "Loading its experts." });
        return { kind: "expertsInstalled", ...(await host.experts.install(work.sets, onBytes)) };
      }
      case "runExperts": {
        const begin = now();
        const { results, rows, error } = await host.experts.run(work.dispatches);
        const computeMs = now() - begin;
        board.addCalls(work.dispatches.length, rows, computeMs);
        const fault = error === null ? null : faultOf(error);
        await this.#rest(computeMs);
        return { kind: "expertRows", results, computeMs, fault };
      }
      case "makeTokens":
        return await this.#makeTokens(work, host);
      case "forkSession":
        await host.fork(work.layers, work.isHub, work.fork);
        return { kind: "done" };
      case "takeSampling": {
        const problem = host.takeSampling(work.sampling);
        if (problem !== "") throw new EngineError("invalid_data", problem);
        return { kind: "done" };
      }
      case "releaseSessions":
        host.releaseSessions(work.sessions);
        return { kind: "done" };
      case "releaseAll":
        await host.releaseAll();
        return { kind: "done" };
      case "keepLayers":
        await host.keep(work.keep, work.hubs);
        return { kind: "done" };
      case "takeStock":
        return { kind: "stock", bindings: host.takeStock(work.bindings, work.sessions) };
    }
  }

  // Of a hub's layers, which are parts of the package's, the card tells no bytes.
  async #install(
    work: Extract<Work, { kind: "installLayers" }>,
    init: Init,
    host: StageHost,
  ): Promise<Installed> {
    const { board } = this.#options;
    const tell = (what: string): void => {
      if (board.current.download) return; // which the card shows
      board.set({ phase: "loading", message: `Loading its layers${what}.` });
    };
    if (work.isHub) return await host.installHub(work.layers, init, () => tell(""));
    let { doneBytes } = work;
    return await host.install(work.layers, work.isLast, init, (bytes) => {
      doneBytes = Math.min(work.totalBytes, doneBytes + bytes);
      const [done, total] = [doneBytes, work.totalBytes].map((it) => (it / 1e6).toFixed(0));
      tell(`: ${done} of ${total} MB`);
    });
  }

  // So long that what it computed was its share of the time.
  async #rest(computeMs: number): Promise<void> {
    const { share } = this.#options;
    if (share >= 1) return;
    await new Promise((resolve) => setTimeout(resolve, computeMs * (1 / share - 1)));
  }

  async #makeTokens(
    { frames, layers }: Extract<Work, { kind: "makeTokens" }>,
    host: StageHost,
  ): Promise<Outcome> {
    this.#joiningTokens = [...frames];
    this.#stoppedTokens.clear();
    this.#pausesTokens = false;
    let together = 0;
    await host.generate(layers, {
      take: () => {
        together += this.#joiningTokens.length;
        return this.#joiningTokens.splice(0);
      },
      pauses: () => this.#pausesTokens || this.#isClosed,
      onTokens: ({ sequence }, tokens, isLast, computeMs) => {
        this.#options.board.addStep(tokens.length, computeMs / together);
        this.#feed({ kind: "tokensMade", sequence, tokens, computeMs, isLast });
        const isWanted = !isLast && !this.#stoppedTokens.has(sequence) && !this.#isClosed;
        if (!isWanted) --together;
        return isWanted;
      },
      onFailed: ({ sequence }, error) => {
        --together;
        this.#feed({ kind: "tokensFailed", sequence, fault: faultOf(error) });
      },
    });
    return { kind: "paused" };
  }

  // The page is told what the device holds by now, too.
  #show(shown: Shown): void {
    const { board, source } = this.#options;
    const usedBytes = this.engineBytes + source.memoryBytes;
    const { cachedBytes } = source;
    board.set(this.#joined ? { ...shown, usedBytes, cachedBytes } : shown);
  }
}

function faultOf(error: unknown): Fault {
  const code = error instanceof EngineError ? error.code : "unavailable";
  const message = error instanceof Error ? error.message : String(error);
  return { code, message, isKernelRefused: error instanceof KernelRefusedError };
}

// A device that rests answers later than it computes: plans count with that.
function asAnsweredWith(
  share: number, measured: Extract<Outcome, { kind: "measured" }>,
): Extract<Outcome, { kind: "measured" }> {
  if (share >= 1) return measured;
  const timings = measured.timings.map(({ layers, runUs }) =>
    ({ layers, runUs: runUs.map((us) => Math.round(us / share)) }));
  return { ...measured, timings };
}
