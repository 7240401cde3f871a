// One socket and the session behind it.
import type { StageEngine } from "@weft/engine";

import { MemoryStore } from "../download/blobStore.ts";
import type { BlobStore } from "../download/blobStore.ts";
import type { EngineOffer, HostParts, Socket, Start } from "./hostParts.ts";
import { messageOf } from "../joining/joining.ts";
import type { Ending } from "../joining/joining.ts";
import { PackageSource } from "../download/packageSource.ts";
import { ServerHttp } from "../download/serverHttp.ts";
import { WorkerSession } from "./session.ts";
import type { StatusBoard } from "./statusBoard.ts";

// What remains when the GPU's engine cannot be made.
const kFallbackEngine = "ort-wasm";

export interface ConnectionEvents {
  readonly onEnding: (ending: Ending) => void;
  // The GPU's engine cannot be made here after all, or its driver refuses a kernel.
  readonly onEngineFailed: (why: string) => void;
  // The engine runs programs only, and the package has none.
  readonly onNotLowered: () => void;
  // Whether the user wants the whole model in this tab; and the server has ended that.
  readonly wantsWhole: () => boolean;
  readonly onWholeEnded: () => void;
  // The engine was lost while it held layers.
  readonly onEngineLost: (reason: string) => void;
}

export class Connection {
  readonly #parts: HostParts;
  readonly #url: string;
  readonly #events: ConnectionEvents;
  readonly #session: WorkerSession;
  readonly #life = new AbortController();
  #socket: Socket | null = null;
  #isOpen = false;

  constructor(
    parts: HostParts,
    board: StatusBoard,
    start: Start & { readonly note: string },
    engine: EngineOffer,
    store: BlobStore | null,
    events: ConnectionEvents,
  ) {
    this.#parts = parts;
    this.#events = events;
    this.#url = start.serverOrigin.replace(/^http/, "ws") + "/worker";
    const http = new ServerHttp(
      start.serverOrigin,
      start.joinToken,
      parts.fetch,
      this.#life.signal,
    );
    let made: StageEngine | null = null;
    const memory: MemoryStore = new MemoryStore((bytes) => {
      const use = made?.memory() ?? { weightBytes: 0, kvBytes: 0, scratchBytes: 0 };
      const held = use.weightBytes + use.kvBytes + use.scratchBytes + memory.memoryBytes;
      return held + bytes <= start.memoryBytes;
    });
    const source = new PackageSource({
      http,
      cache: store ?? memory,
      memory,
      needsPrograms: !engine.needsOnnx,
    });
    this.#session = new WorkerSession({
      name: start.name,
      device: engine.device,
      workerId: start.workerId,
      joinToken: start.joinToken,
      memoryBytes: start.memoryBytes,
      engineName: engine.name,
      needsOnnx: engine.needsOnnx,
      guessWeightFactor: engine.guessWeightFactor,
      note: start.note,
      onNotLowered: () => events.onNotLowered(),
      wantsWhole: () => events.wantsWhole(),
      onWholeEnded: () => events.onWholeEnded(),
      onKernelRefused: (why) => events.onEngineFailed(why),
      makeEngine: async (manifest) => {
        try {
          made = await engine.make(start.memoryBytes, () => memory.memoryBytes, manifest);
          board.set({ engineDetail: made.detail ?? "" });
          void made.lost?.then((reason) => events.onEngineLost(reason));
          return made;
        } catch (error) {
          if (engine.name !== kFallbackEngine) events.onEngineFailed(messageOf(error));
          throw error;
        }
      },
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

  open(): void {
    let everOpen = false;
    this.#socket = this.#parts.openSocket(this.#url, {
      onOpen: () => {
        this.#isOpen = true;
        everOpen = true;
      },
      onMessage: (message) => this.#session.onMessage(message),
      onClose: () => {
        this.#isOpen = false;
        const message = everOpen
          ? "The connection to the server was lost."
          : "The server does not answer, or refuses this page.";
        this.#events.onEnding({ kind: "retry", message });
      },
    });
  }

  sayRunHere(isWanted: boolean): void {
    this.#session.sayRunHere(isWanted);
  }

  leave(reason: string): void {
    this.#session.sayLeaving(reason);
    this.#socket?.close();
  }

  // Settles when everything is freed.
  async close(): Promise<void> {
    this.#life.abort();
    this.#socket?.close();
    await this.#session.close();
  }
}
