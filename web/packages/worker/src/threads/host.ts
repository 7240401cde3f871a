// The worker of a tab, or of a headless process, from start to stop: one connection after another,
// with what it still holds, until the user stops or the server refuses. What the browser or Node
// gives (sockets, storage, GPU) comes in through HostParts, so that tests run it with fakes.
import { Backoff } from "./backoff.ts";
import type { BlobStore } from "../download/blobStore.ts";
import { VerifiedChunks } from "../download/packageSource.ts";
import type { Ending } from "../membership/events.ts";
import { Helper } from "./helper.ts";
import type { Lost } from "./helper.ts";
import type { EngineOffer, EngineWish, HostParts, Start } from "./hostParts.ts";
import type { ToWorker } from "./messages.ts";
import { ServerList } from "./serverList.ts";
import type { Server } from "./serverList.ts";
import { StatusBoard } from "./statusBoard.ts";

// A connection that lasted this long was a good one: the next attempt comes at once again.
const kGoodConnectionMs = 20_000;
// The longest pause between attempts to connect while the server counts on what the tab holds.
const kLongestPauseKeptMs = 250;
// A worker that goes waits so long for the server to have taken over what it does.
const kGoodbyeMs = 2000;

export class WorkerHost {
  readonly #parts: HostParts;
  readonly #board: StatusBoard;
  readonly #backoff: Backoff;
  readonly #verified = new VerifiedChunks();
  #store: Promise<BlobStore | null> | null = null;
  #start: Start | null = null; // while helping
  #servers: ServerList | null = null; // of the start
  #life = new AbortController(); // of one start
  #helper: Helper | null = null;
  #connectedAt = 0; // ms
  #retryTimer: ReturnType<typeof setTimeout> | null = null;
  #goodbyeTimer: ReturnType<typeof setTimeout> | null = null; // while it leaves
  #engineWish: EngineWish = "auto";
  #lossCount = 0; // engines lost since the user's start
  #stopCount = 0; // engines of a GPU that stopped working since then
  #wantsWhole = false; // said again to the server after a reconnection
  #apiKey = ""; // said with it
  #closed: Promise<void> = Promise.resolve(); // what the last helper held is freed
  #granted: number | null = null; // bytes of the offer that the GPU gives, once it was asked
  #isOfGpu = false; // what computes, or last did
  #note = ""; // why another engine computes, or with less memory, than was wished

  constructor(parts: HostParts) {
    this.#parts = parts;
    this.#backoff = new Backoff(parts.random);
    this.#board = new StatusBoard(
      (status) => parts.publish({ kind: "status", status }),
      parts.now,
    );
  }

  // After a stop or a refusal: settles when everything is freed.
  get closed(): Promise<void> {
    return this.#closed;
  }

  onMessage(message: ToWorker): void {
    switch (message.kind) {
      case "start":
        return this.#onStart(message);
      case "stop":
        return this.#onStop("stopped by its user", true);
      case "leaving":
        return this.#onStop("the tab was closed", false); // there is time for one short message
      case "runHere":
        this.#wantsWhole = message.isWanted;
        this.#apiKey = message.apiKey;
        return this.#helper?.sayRunHere(message.isWanted, message.apiKey);
      case "forgetCache":
        void this.#forgetCache();
    }
  }

  #onStart(start: Start): void {
    if (this.#start) this.#onStop("started anew", false);
    else if (this.#helper) this.#onGone();
    const obstacle = this.#parts.obstacle();
    if (obstacle !== "") return this.#refuse(obstacle);
    this.#start = start;
    this.#servers = new ServerList(serversOf(start));
    this.#parts.knowServers(this.#servers.inOrder());
    this.#engineWish = start.engine;
    this.#lossCount = 0;
    this.#stopCount = 0;
    this.#wantsWhole = false;
    this.#granted = null;
    this.#note = "";
    this.#life = new AbortController();
    this.#backoff.reset();
    this.#board.set({ phase: "connecting", message: "", memoryBytes: start.memoryBytes });
    this.#connect("connecting");
  }

  // Draining: steps are answered until the server has taken over what this tab does.
  #onStop(reason: string, isDraining: boolean): void {
    const isFirst = this.#goodbyeTimer === null;
    this.#start = null;
    this.#life.abort();
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
    const { isConnected } = this.#helper ?? { isConnected: false };
    if (isFirst) this.#helper?.leave(reason, isDraining);
    if (!isDraining || !isConnected) return this.#onGone();
    this.#goodbyeTimer ??= setTimeout(() => this.#onGone(), kGoodbyeMs);
    this.#board.set({ message: "Finishing what it computes." });
  }

  #onGone(): void {
    if (this.#goodbyeTimer !== null) clearTimeout(this.#goodbyeTimer);
    this.#goodbyeTimer = null;
    if (this.#helper) this.#closed = this.#helper.close();
    this.#helper = null;
    this.#board.set({ phase: "stopped", message: "Stopped.", ...kNothingHeld });
    this.#board.flush();
  }

  #refuse(message: string): void {
    this.#start = null;
    this.#life.abort();
    this.#board.set({ phase: "refused", message, ...kNothingHeld });
    this.#board.flush();
  }

  #openedStore(): Promise<BlobStore | null> {
    this.#store ??= this.#parts.openStore();
    return this.#store;
  }

  async #forgetCache(): Promise<void> {
    const store = await this.#openedStore();
    await store?.clear();
    this.#verified.clear();
    this.#board.set({ cachedBytes: store?.cachedBytes ?? 0 });
  }

  // `why`: what went before, for people.
  #connect(phase: "connecting" | "reconnecting", why = ""): void {
    const [start, servers] = [this.#start, this.#servers];
    if (!start || !servers) return;
    const { host } = new URL(servers.current.origin);
    this.#board.set({ phase, message: `${why}Connecting to ${host}.` });
    if (!this.#helper) {
      const life = this.#life.signal;
      void this.#open(start, servers, life).catch((error: unknown) => {
        if (!life.aborted) this.#refuse(`This browser cannot help: ${String(error)}`);
      });
      return;
    }
    this.#connectedAt = this.#parts.now();
    this.#helper.connect();
  }

  async #open(start: Start, servers: ServerList, life: AbortSignal): Promise<void> {
    const { withoutGpu } = this.#parts;
    const [store, engine] = await Promise.all([this.#openedStore(), this.#chosenEngine()]);
    this.#isOfGpu = engine.usesGpu;
    const memoryBytes = await this.#grantedBytes(start, engine);
    if (life.aborted) return;
    if (memoryBytes === 0) {
      if (withoutGpu !== "") return this.#refuse(`The GPU gives no memory. ${withoutGpu}`);
      this.#useProcessor("it gives no memory.");
      return await this.#open(start, servers, life);
    }
    this.#board.set({
      engine: engine.name,
      engineDetail: "",
      memoryBytes,
      cachedBytes: store?.cachedBytes ?? 0,
      keepsWeights: store !== null,
    });
    const helper: Helper = new Helper({
      parts: this.#parts,
      board: this.#board,
      start,
      servers,
      memoryBytes,
      note: this.#note,
      wantsWhole: this.#wantsWhole,
      apiKey: this.#apiKey,
      engine,
      store,
      verified: this.#verified,
      events: {
        onLost: (message, how) => this.#onLost(helper, message, how),
        onEnding: (ending) => this.#onEnding(helper, ending),
        onWholeEnded: () => (this.#wantsWhole = false),
        onEngineLost: (reason) => this.#onEngineLost(helper, reason),
      },
    });
    this.#helper = helper;
    this.#connectedAt = this.#parts.now();
    helper.connect();
  }

  // What another engine is to do from now on; the sentence for the page.
  #learnt({ kind, message }: Ending): string {
    if (kind === "engineFailed") return this.#useProcessor(message);
    if (kind === "engineStopped") return this.#stoppedAgain(message);
    if (kind !== "notLowered") return message;
    this.#engineWish = "onnx";
    return `${message} onnxruntime computes them instead.`;
  }

  // A driver may have been restarted; what stops once more does so because of this device.
  #stoppedAgain(message: string): string {
    const isAgain = this.#isOfGpu && ++this.#stopCount > 1;
    return isAgain ? this.#useProcessor(message) : message;
  }

  #useProcessor(why: string): string {
    this.#engineWish = "wasm";
    this.#note = `The GPU cannot be used here: the processor computes instead. (${why})`;
    return this.#note;
  }

  // What a browser's WebGPU does not answer as its standard says is no reason not to help.
  async #chosenEngine(): Promise<EngineOffer> {
    try {
      return await this.#parts.chooseEngine(this.#engineWish);
    } catch (error) {
      if (this.#engineWish === "wasm") throw error;
      this.#useProcessor(error instanceof Error ? error.message : String(error));
      return await this.#parts.chooseEngine(this.#engineWish);
    }
  }

  // What the device gives of the offer: asked before anything is promised, once.
  async #grantedBytes(start: Start, engine: EngineOffer): Promise<number> {
    if (!engine.usesGpu) return this.#processorBytes(start);
    if (!engine.probe) return start.memoryBytes;
    this.#board.set({ message: "Asking the GPU for memory." });
    this.#granted ??= await this.#probed(start, engine.probe);
    if (this.#granted > 0 && this.#granted < start.memoryBytes) {
      const [given, wished] = [this.#granted, start.memoryBytes].map((bytes) =>
        (bytes / 1e6).toFixed(0),
      );
      this.#note = `The GPU gives ${given} MB of the ${wished} that were offered.`;
    }
    return this.#granted;
  }

  // A card's memory was offered: the system may have less.
  #processorBytes({ memoryBytes, processorBytes = memoryBytes }: Start): number {
    if (processorBytes >= memoryBytes) return memoryBytes;
    const [given, wished] = [processorBytes, memoryBytes].map((bytes) => (bytes / 1e6).toFixed(0));
    const why = `The processor lends ${given} MB of the ${wished} that were offered.`;
    if (!this.#note.includes(why)) this.#note = `${this.#note} ${why}`.trim();
    return processorBytes;
  }

  // Half of it where taking all at once could end the tab: a GPU that gives half is believed.
  async #probed(
    { memoryBytes, isPhone }: Start,
    probe: NonNullable<EngineOffer["probe"]>,
  ): Promise<number> {
    const asked = isPhone ? Math.ceil(memoryBytes / 2) : memoryBytes;
    const given = await probe(asked).catch(() => 0);
    return given >= asked ? memoryBytes : given;
  }

  // A GPU may be lost once (a driver restarted); a device that loses it again does not help.
  #onEngineLost(helper: Helper, reason: string): void {
    if (this.#helper !== helper) return;
    const message = `The GPU was lost: ${reason}.`;
    helper.leave(message, false);
    const kind = ++this.#lossCount > 1 ? "refused" : "retry";
    this.#onEnding(helper, { kind, message });
  }

  // What it holds is kept for the next connection.
  #onLost(helper: Helper, message: string, how: Lost): void {
    if (this.#helper !== helper) return; // stopped, or ended before
    if (this.#goodbyeTimer !== null) return this.#onGone();
    this.#board.set({ download: null });
    const pauseMs = this.#nextServer(how, helper.isKeeping);
    if (pauseMs === 0) this.#connect("reconnecting", `${message} `);
    else this.#retry(message, pauseMs, Promise.resolve());
  }

  #onEnding(helper: Helper, ending: Ending): void {
    const { withoutGpu } = this.#parts;
    if (this.#helper !== helper) return;
    if (this.#goodbyeTimer !== null) return this.#onGone();
    this.#helper = null;
    this.#closed = helper.close();
    if (ending.kind === "refused") return this.#refuse(ending.message);
    const mayAgain = ending.kind === "retry" || ending.kind === "engineStopped";
    if (!mayAgain && withoutGpu !== "") {
      return this.#refuse(`${ending.message} ${withoutGpu}`);
    }
    this.#board.set(kNothingHeld);
    // The old engine's memory is free before the new one takes any.
    const message = this.#learnt(ending);
    // Never at once: the server was not content, and people want to read why.
    this.#noteGoodConnection();
    this.#retry(message, this.#laterMs(), this.#closed);
  }

  // Goes on to the next server, and gives the pause until it is tried.
  #nextServer({ isLater = false, elsewhere }: Lost, isKeeping: boolean): number {
    this.#noteGoodConnection();
    const servers = this.#servers!;
    const isFirstTry = elsewhere === undefined ? servers.next() : servers.nextIs(elsewhere);
    if (isFirstTry) {
      this.#parts.knowServers(servers.inOrder());
      return 0;
    }
    if (isLater) return this.#laterMs();
    // A server that cannot lead yet is there, and may lead in a moment.
    const isSoon = isKeeping || elsewhere !== undefined;
    return this.#backoff.next(isSoon ? kLongestPauseKeptMs : undefined);
  }

  #noteGoodConnection(): void {
    if (this.#parts.now() - this.#connectedAt > kGoodConnectionMs) {
      this.#backoff.reset();
      this.#servers?.settle();
    }
    this.#connectedAt = this.#parts.now();
  }

  #laterMs(): number {
    return this.#backoff.next() || this.#backoff.next();
  }

  #retry(message: string, pauseMs: number, isReady: Promise<void>): void {
    this.#board.set({
      phase: "reconnecting",
      message: `${message} Trying again in ${(pauseMs / 1000).toFixed(pauseMs < 950 ? 1 : 0)} s.`,
    });
    const life = this.#life;
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = null;
      void isReady.then(() => {
        if (!life.signal.aborted) this.#connect("reconnecting");
      });
    }, pauseMs);
  }
}

function serversOf({ serverOrigin, moreServers = [] }: Start): Server[] {
  return [{ origin: serverOrigin, fingerprint: "" }, ...moreServers];
}

const kNothingHeld = {
  layers: null,
  expertsHeld: 0,
  download: null,
  usedBytes: 0,
  whole: "no",
  wholeMessage: "",
} as const;
