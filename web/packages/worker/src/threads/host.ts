// The worker of a tab from start to stop: one connection after another until the user stops or the
// server refuses. What the browser gives (sockets, storage, GPU) comes in through HostParts, so
// that tests run it with fakes.
import { Backoff } from "./backoff.ts";
import type { BlobStore } from "../download/blobStore.ts";
import { VerifiedChunks } from "../download/packageSource.ts";
import type { Ending } from "../membership/events.ts";
import { Connection } from "./connection.ts";
import type { EngineOffer, EngineWish, HostParts, Start } from "./hostParts.ts";
import type { ToWorker } from "./messages.ts";
import { StatusBoard } from "./statusBoard.ts";

// A connection that lasted this long was a good one: the next pause starts small again.
const kGoodConnectionMs = 20_000;

export class WorkerHost {
  readonly #parts: HostParts;
  readonly #board: StatusBoard;
  readonly #backoff: Backoff;
  readonly #verified = new VerifiedChunks();
  #store: Promise<BlobStore | null> | null = null;
  #start: Start | null = null; // while helping
  #life = new AbortController(); // of one start
  #connection: Connection | null = null;
  #retryTimer: ReturnType<typeof setTimeout> | null = null;
  #engineWish: EngineWish = "auto";
  #lossCount = 0; // engines lost since the user's start
  #wantsWhole = false; // said again to the server after a reconnection
  #granted: number | null = null; // bytes of the offer that the GPU gives, once it was asked
  #note = ""; // why another engine computes, or with less memory, than was wished

  constructor(parts: HostParts) {
    this.#parts = parts;
    this.#backoff = new Backoff(parts.random);
    this.#board = new StatusBoard(
      (status) => parts.publish({ kind: "status", status }),
      parts.now,
    );
  }

  onMessage(message: ToWorker): void {
    switch (message.kind) {
      case "start":
        return this.#onStart(message);
      case "stop":
        return this.#onStop("stopped by its user");
      case "leaving":
        return this.#onStop("the tab was closed"); // there is time for one short message
      case "runHere":
        this.#wantsWhole = message.isWanted;
        return this.#connection?.sayRunHere(message.isWanted);
      case "forgetCache":
        void this.#forgetCache();
    }
  }

  #onStart(start: Start): void {
    if (this.#start) this.#onStop("started anew");
    const obstacle = this.#parts.obstacle();
    if (obstacle !== "") return this.#refuse(obstacle);
    this.#start = start;
    this.#engineWish = start.engine;
    this.#lossCount = 0;
    this.#wantsWhole = false;
    this.#granted = null;
    this.#note = "";
    this.#life = new AbortController();
    this.#backoff.reset();
    this.#board.set({ memoryBytes: start.memoryBytes });
    this.#connect("connecting");
  }

  #onStop(reason: string): void {
    this.#start = null;
    this.#life.abort();
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
    this.#connection?.leave(reason);
    void this.#connection?.close();
    this.#connection = null;
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

  #connect(phase: "connecting" | "reconnecting"): void {
    const start = this.#start;
    if (!start) return;
    const { host } = new URL(start.serverOrigin);
    this.#board.set({ phase, message: `Connecting to ${host}.` });
    const life = this.#life;
    void this.#open(start, life.signal);
  }

  async #open(start: Start, life: AbortSignal): Promise<void> {
    const [store, engine] = await Promise.all([
      this.#openedStore(),
      this.#parts.chooseEngine(this.#engineWish),
    ]);
    const memoryBytes = await this.#grantedBytes(start, engine);
    if (life.aborted) return;
    if (memoryBytes === 0) {
      this.#useProcessor("it gives no memory.");
      return await this.#open(start, life);
    }
    this.#board.set({
      engine: engine.name,
      engineDetail: "",
      memoryBytes,
      cachedBytes: store?.cachedBytes ?? 0,
    });
    const begin = this.#parts.now();
    const connection: Connection = new Connection({
      parts: this.#parts,
      board: this.#board,
      start,
      memoryBytes,
      note: this.#note,
      wantsWhole: this.#wantsWhole,
      engine,
      store,
      verified: this.#verified,
      events: {
        onEnding: (ending) => this.#onEnding(connection, ending, begin),
        onEngineFailed: (why) =>
          this.#onEnding(connection, { kind: "engineFailed", message: why }, begin),
        onWholeEnded: () => (this.#wantsWhole = false),
        onEngineLost: (reason) => this.#onEngineLost(connection, reason, begin),
      },
    });
    this.#connection = connection;
    connection.open();
  }

  // What another engine is to do from now on; the sentence for the page.
  #learnt({ kind, message }: Ending): string {
    if (kind === "engineFailed") return this.#useProcessor(message);
    if (kind === "notLowered") this.#engineWish = "onnx";
    return message;
  }

  #useProcessor(why: string): string {
    this.#engineWish = "wasm";
    this.#note = `The GPU cannot be used here: the processor computes instead. (${why})`;
    return this.#note;
  }

  // What the device gives of the offer: asked before anything is promised, once.
  async #grantedBytes(start: Start, engine: EngineOffer): Promise<number> {
    if (!engine.probe) return start.memoryBytes;
    this.#board.set({ message: "Asking the GPU for memory." });
    this.#granted ??= await engine.probe(start.memoryBytes).catch(() => 0);
    if (this.#granted > 0 && this.#granted < start.memoryBytes) {
      const [given, wished] = [this.#granted, start.memoryBytes].map((bytes) =>
        (bytes / 1e6).toFixed(0),
      );
      this.#note = `The GPU gives ${given} MB of the ${wished} that were offered.`;
    }
    return this.#granted;
  }

  // A GPU may be lost once (a driver restarted); a device that loses it again does not help.
  #onEngineLost(connection: Connection, reason: string, begin: number): void {
    if (this.#connection !== connection) return;
    const message = `The GPU was lost: ${reason}.`;
    connection.leave(message);
    const kind = ++this.#lossCount > 1 ? "refused" : "retry";
    this.#onEnding(connection, { kind, message }, begin);
  }

  #onEnding(connection: Connection, ending: Ending, begin: number): void {
    if (this.#connection !== connection) return; // stopped, or ended before
    this.#connection = null;
    const closed = connection.close();
    if (ending.kind === "refused") return this.#refuse(ending.message);
    const message = this.#learnt(ending);
    if (this.#parts.now() - begin > kGoodConnectionMs) this.#backoff.reset();
    const pauseMs = this.#backoff.next();
    this.#board.set({
      phase: "reconnecting",
      message: `${message} Trying again in ${(pauseMs / 1000).toFixed(0)} s.`,
      ...kNothingHeld,
    });
    // The old engine's memory is free before the new one takes any.
    const life = this.#life;
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = null;
      void closed.then(() => {
        if (!life.signal.aborted) this.#connect("reconnecting");
      });
    }, pauseMs);
  }
}

const kNothingHeld = { layers: null, download: null, usedBytes: 0, whole: "no" } as const;
