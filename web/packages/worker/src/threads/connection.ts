// One connection: a socket and the worker behind it.
import type { StageEngine } from "@weft/engine";

import { MemoryStore } from "../download/blobStore.ts";
import type { BlobStore } from "../download/blobStore.ts";
import type { Manifest } from "../download/manifest.ts";
import { PackageSource } from "../download/packageSource.ts";
import type { VerifiedChunks } from "../download/packageSource.ts";
import { ServerHttp } from "../download/serverHttp.ts";
import type { Ending } from "../membership/events.ts";
import type { EngineOffer, HostParts, Socket, Start } from "./hostParts.ts";
import { SilenceWatch } from "./silence.ts";
import type { StatusBoard } from "./statusBoard.ts";
import { TabWorker } from "./tabWorker.ts";

export interface ConnectionEvents {
  readonly onEnding: (ending: Ending) => void;
  // The GPU's engine cannot be made here after all.
  readonly onEngineFailed: (why: string) => void;
  // The server has ended that this tab computes the whole model.
  readonly onWholeEnded: () => void;
  // The engine was lost while it held layers.
  readonly onEngineLost: (reason: string) => void;
}

export interface ConnectionOptions {
  readonly parts: HostParts;
  readonly board: StatusBoard;
  readonly start: Start;
  readonly memoryBytes: number; // the offer, as far as the device gives it
  readonly note: string; // for the card
  readonly wantsWhole: boolean;
  readonly engine: EngineOffer;
  readonly store: BlobStore | null; // null: nothing outlives the tab
  readonly verified: VerifiedChunks; // of the store
  readonly events: ConnectionEvents;
}

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #worker: TabWorker;
  readonly #life = new AbortController();
  readonly #memory: MemoryStore;
  readonly #silence: SilenceWatch;
  #engine: StageEngine | null = null;
  #socket: Socket | null = null;
  #isOpen = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#memory = new MemoryStore((bytes) => this.#heldBytes() + bytes <= options.memoryBytes);
    this.#worker = this.#makeWorker();
    this.#silence = new SilenceWatch(
      () => this.#worker.isJoining, // the server waits for this side
      () => this.#onEnd("The server has not been heard for 6 s."),
    );
  }

  #makeWorker(): TabWorker {
    const { parts, board, start, memoryBytes, note, wantsWhole, engine, store, verified, events } =
      this.#options;
    const { signal } = this.#life;
    const http = new ServerHttp(start.serverOrigin, start.joinToken, parts.fetch, signal);
    const source = new PackageSource({
      http,
      cache: store ?? this.#memory,
      memory: this.#memory,
      verified,
      needsPrograms: !engine.needsOnnx,
    });
    return new TabWorker({
      offer: {
        name: start.name,
        device: engine.device,
        workerId: start.workerId,
        joinToken: start.joinToken,
        memoryBytes,
        engineName: engine.name,
        needsOnnx: engine.needsOnnx,
        makesTokens: engine.makesTokens,
        guessWeightFactor: engine.guessWeightFactor,
      },
      note,
      wantsWhole,
      onWholeEnded: () => events.onWholeEnded(),
      makeEngine: (manifest) => this.#makeEngine(manifest),
      measureDownload: (byteCount, limitMs) => http.measureDownload(byteCount, limitMs),
      source,
      board,
      now: parts.now,
      send: (message) => {
        if (this.#isOpen) this.#socket?.send(message);
      },
      finish: (ending) => events.onEnding(ending),
    });
  }

  async #makeEngine(manifest: Manifest): Promise<StageEngine> {
    const { board, memoryBytes, engine, events } = this.#options;
    try {
      const made = await engine.make(memoryBytes, () => this.#memory.memoryBytes, manifest);
      this.#engine = made;
      board.set({ engineDetail: made.detail ?? "" });
      void made.lost?.then((reason) => events.onEngineLost(reason));
      return made;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (engine.usesGpu) events.onEngineFailed(why);
      throw error;
    }
  }

  // What counts against the offer.
  #heldBytes(): number {
    const { memoryBytes } = this.#memory;
    if (!this.#engine) return memoryBytes;
    const { weightBytes, kvBytes, scratchBytes } = this.#engine.memory();
    return weightBytes + kvBytes + scratchBytes + memoryBytes;
  }

  open(): void {
    const { parts, start } = this.#options;
    const url = start.serverOrigin.replace(/^http/, "ws") + "/worker";
    let everOpen = false;
    this.#silence.start();
    this.#socket = parts.openSocket(url, {
      onOpen: () => {
        this.#isOpen = true;
        everOpen = true;
        this.#silence.heard();
      },
      onMessage: (message) => {
        this.#silence.heard();
        this.#worker.onMessage(message);
      },
      onClose: () =>
        this.#onEnd(
          everOpen
            ? "The connection to the server was lost."
            : "The server does not answer, or refuses this page.",
        ),
    });
  }

  #onEnd(message: string): void {
    this.#isOpen = false;
    this.#silence.stop();
    this.#options.events.onEnding({ kind: "retry", message });
  }

  sayRunHere(isWanted: boolean): void {
    this.#worker.sayRunHere(isWanted);
  }

  leave(reason: string): void {
    this.#worker.sayLeaving(reason);
    this.#socket?.close();
  }

  // Settles when everything is freed.
  async close(): Promise<void> {
    this.#silence.stop();
    this.#life.abort();
    this.#socket?.close();
    await this.#worker.close();
  }
}
