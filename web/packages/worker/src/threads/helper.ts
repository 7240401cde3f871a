// The engines of this tab and the worker around them, over the connections that follow each other.
import type { StageEngine } from "@weft/engine";

import { MemoryStore } from "../download/blobStore.ts";
import type { BlobStore } from "../download/blobStore.ts";
import type { Manifest } from "../download/manifest.ts";
import { PackageSource } from "../download/packageSource.ts";
import type { VerifiedChunks } from "../download/packageSource.ts";
import { kFewRecentBytes, kMostRecentBytes, RecentChunks } from "../download/recentChunks.ts";
import { ServerHttp } from "../download/serverHttp.ts";
import type { Ending } from "../membership/events.ts";
import { Connection } from "./connection.ts";
import type { EngineOffer, HostParts, Start } from "./hostParts.ts";
import type { ServerList } from "./serverList.ts";
import type { StatusBoard } from "./statusBoard.ts";
import { TabWorker } from "./tabWorker.ts";

export interface Lost {
  readonly isLater?: boolean; // the server has asked for a pause
  readonly elsewhere?: string; // it cannot lead now: the URL of a server that can, or ""
}

export interface HelperEvents {
  // The connection is gone; what the engine holds stays for the next one.
  readonly onLost: (message: string, how: Lost) => void;
  // The worker is over. Nothing comes after it.
  readonly onEnding: (ending: Ending) => void;
  // The server has ended that this tab computes the whole model.
  readonly onWholeEnded: () => void;
  // The engine was lost while it held layers.
  readonly onEngineLost: (reason: string) => void;
}

export interface HelperOptions {
  readonly parts: HostParts;
  readonly board: StatusBoard;
  readonly start: Start;
  readonly servers: ServerList;
  readonly memoryBytes: number; // the offer, as far as the device gives it
  readonly note: string; // for the card
  readonly wantsWhole: boolean;
  readonly apiKey: string; // said with that wish
  readonly engine: EngineOffer;
  readonly store: BlobStore | null; // null: nothing outlives the tab
  readonly verified: VerifiedChunks; // of the store
  readonly events: HelperEvents;
}

// After so many connections that never opened the server is asked in another way.
const kUnexplainedEnds = 2;
const kAskMs = 3000;

const kSocketRefused =
  "The server answers, but this browser opens no WebSocket to it. iPhones and iPads refuse them " +
  "where the certificate is the server's own: install its authority from the page /certificate, " +
  "or start the server with a certificate that browsers trust (--tls and --tls-key).";

export class Helper {
  readonly #options: HelperOptions;
  readonly #worker: TabWorker;
  readonly #life = new AbortController();
  readonly #memory: MemoryStore;
  readonly #recent: RecentChunks;
  #connection: Connection | null = null;
  #unexplained = 0; // connections in a row that never opened
  #refusals = 0; // servers in a row that let it in no more

  constructor(options: HelperOptions) {
    this.#options = options;
    const hasRoom = (bytes: number): boolean => this.#heldBytes() + bytes <= options.memoryBytes;
    this.#memory = new MemoryStore(hasRoom);
    const mostRecent = options.start.isPhone ? kFewRecentBytes : kMostRecentBytes;
    this.#recent = new RecentChunks(hasRoom, mostRecent);
    this.#worker = this.#makeWorker();
  }

  #makeWorker(): TabWorker {
    const { parts, board, start, servers, memoryBytes, note } = this.#options;
    const { wantsWhole, apiKey, engine, store, verified, events } = this.#options;
    const { signal } = this.#life;
    const share = start.share ?? 1;
    const origins = (): string[] => servers.inOrder().map(({ origin }) => origin);
    const http = new ServerHttp(origins, start.joinToken, parts.fetch, signal);
    const source = new PackageSource({
      http,
      cache: store ?? this.#memory,
      memory: this.#memory,
      verified,
      recent: this.#recent,
      fetcher: parts.blobFetcher,
      needsPrograms: !engine.needsOnnx,
    });
    return new TabWorker({
      offer: {
        kind: parts.kind,
        name: start.name,
        device: engine.device,
        workerId: start.workerId,
        joinToken: start.joinToken,
        memoryBytes,
        engineName: engine.name,
        needsOnnx: engine.needsOnnx,
        // Whoever rests between steps makes no tokens in one go.
        makesTokens: share < 1 ? 0 : engine.makesTokens,
        takesExperts: engine.takesExperts,
        keepsState: engine.keepsState,
        statesAhead: engine.statesAhead,
        dtypes: engine.dtypes,
        guessWeightFactor: engine.guessWeightFactor,
      },
      stepsInFlight: share < 1 ? 1 : engine.stepsInFlight,
      stepsFollow: engine.stepsFollow,
      share,
      note,
      wantsWhole,
      apiKey,
      onWholeEnded: () => events.onWholeEnded(),
      makeEngine: (manifest, otherBytes) => this.#makeEngine(manifest, otherBytes),
      measureDownload: (byteCount, limitMs) => http.measureDownload(byteCount, limitMs),
      source,
      board,
      now: parts.now,
      hangUp: (reason, isLater) => this.#hangUp(reason, isLater),
      knowSuccessors: (successors) => {
        servers.setSuccessors(successors);
        parts.knowServers(servers.inOrder());
      },
      finish: (ending) => events.onEnding(ending),
    });
  }

  // What was sent goes out before the socket closes.
  #hangUp(reason: string, isLater: boolean): void {
    this.#connection?.close();
    this.#connection = null;
    this.#worker.lost();
    this.#options.events.onLost(reason, { isLater });
  }

  async #makeEngine(manifest: Manifest, otherBytes: () => number): Promise<StageEngine> {
    const { board, memoryBytes, engine, events } = this.#options;
    try {
      const alsoHeld = (): number => this.#memory.memoryBytes + otherBytes();
      const made = await engine.make(memoryBytes, alsoHeld, manifest);
      board.set({ engineDetail: made.detail ?? "" });
      void made.lost?.then((reason) => events.onEngineLost(reason));
      return made;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (engine.usesGpu) events.onEnding({ kind: "engineFailed", message });
      throw error;
    }
  }

  // What counts against the offer.
  #heldBytes(): number {
    return this.#worker.engineBytes + this.#memory.memoryBytes + this.#recent.memoryBytes;
  }

  connect(): void {
    const { parts, board, servers, events } = this.#options;
    const connection = new Connection(parts, servers.current.origin, this.#worker.lastSwarm, {
      onOpen: () => {
        this.#refusals = 0;
        this.#worker.connected({
          send: (message) => {
            board.addTraffic(message.byteLength);
            connection.send(message);
          },
          limitSilence: (ms) => connection.limitSilence(ms),
        });
      },
      onMessage: (message) => {
        board.addTraffic(message.byteLength);
        this.#worker.onMessage(message);
      },
      onEnd: (message, isUnexplained) => {
        this.#connection = null;
        this.#worker.lost();
        this.#unexplained = isUnexplained ? this.#unexplained + 1 : 0;
        if (this.#unexplained < kUnexplainedEnds) events.onLost(message, {});
        else void this.#explained(message).then((text) => events.onLost(text, {}));
      },
      onElsewhere: (elsewhere) => {
        this.#connection = null;
        this.#worker.lost();
        events.onLost("The server cannot take this device yet.", { elsewhere });
      },
      onRefused: (message) => {
        this.#connection = null;
        this.#worker.lost();
        // One of several servers may have another certificate now, or other tokens.
        if (++this.#refusals < servers.inOrder().length) events.onLost(message, {});
        else events.onEnding({ kind: "refused", message });
      },
      isExcused: () => this.#worker.isJoining,
    });
    this.#connection = connection;
  }

  // Safari on iPhones lets people visit a server whose certificate is its own, and refuses sockets
  // to the same server without a word.
  async #explained(message: string): Promise<string> {
    const { parts, servers } = this.#options;
    const { origin } = servers.current;
    if (!origin.startsWith("https:")) return message;
    const signal = AbortSignal.any([AbortSignal.timeout(kAskMs), this.#life.signal]);
    try {
      const { ok } = await parts.fetch(`${origin}/healthz`, { signal });
      return ok ? kSocketRefused : message;
    } catch {
      return message;
    }
  }

  // Whether what it holds is kept for the next connection.
  get isKeeping(): boolean {
    return this.#worker.isKeeping;
  }

  get isConnected(): boolean {
    return this.#connection?.isOpen === true;
  }

  sayRunHere(isWanted: boolean, apiKey: string): void {
    this.#worker.sayRunHere(isWanted, apiKey);
  }

  // Draining: onLost comes when the server has taken over what this tab does.
  leave(reason: string, isDraining: boolean): void {
    this.#worker.sayLeaving(reason, isDraining);
  }

  // Settles when everything is freed.
  async close(): Promise<void> {
    this.#life.abort();
    this.#connection?.close();
    this.#connection = null;
    await this.#worker.close();
  }
}
