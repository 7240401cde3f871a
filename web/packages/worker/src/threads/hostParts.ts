// What a worker needs of the browser, or of Node (sockets, storage, GPU), as interfaces: the entry
// gives the real ones, tests give fakes.
import type { StageEngine } from "@weft/engine";

import type { BlobStore } from "../download/blobStore.ts";
import type { BlobFetcher } from "../download/blobThreads.ts";
import type { Manifest } from "../download/manifest.ts";
import type { EngineChoice, FromWorker, ToWorker } from "./messages.ts";
import type { Fetch } from "../download/serverHttp.ts";
import type { Server } from "./serverList.ts";

export type Start = Extract<ToWorker, { kind: "start" }>;

// This is as much of a WebSocket as is used.
export interface Socket {
  send(message: Uint8Array<ArrayBuffer>): void;
  close(): void;
}

// Why there is no connection, where that is known: a browser tells its pages nothing.
export interface SocketFailure {
  readonly message: string; // a full sentence
  readonly isFinal: boolean; // the next attempt would end in the same way
}

// What the server's close frame says. The code kTryElsewhere: the server cannot take a worker now,
// and the reason is the URL of one that can, or empty.
export interface CloseFrame {
  readonly code: number;
  readonly reason: string;
}

export const kTryElsewhere = 4307;

export interface SocketEvents {
  onOpen(): void;
  onMessage(message: Uint8Array): void;
  onClose(failure?: SocketFailure, frame?: CloseFrame): void;
}

// What the user chose, or "onnx": whatever runs ONNX graphs, for a package without programs.
export type EngineWish = EngineChoice | "onnx";

// An engine that this device can make.
export interface EngineOffer {
  readonly name: string; // "ort-wasm", ...
  readonly needsOnnx: boolean; // runs graphs, not programs
  // Sessions that it can choose tokens of, by itself and in one batch, where it holds all layers.
  readonly makesTokens: number;
  // Steps that it takes before the result of the first is there: of different sessions, or also of
  // one.
  readonly stepsInFlight: number;
  readonly stepsFollow: boolean;
  readonly takesExperts: boolean; // holds experts for hubs
  readonly keepsState: boolean; // runs layers with recurrent state
  readonly statesAhead: boolean; // makesTokens holds for models with such layers, too
  readonly dtypes: readonly number[]; // of weights beside f32, f16, bf16, q8 and q4 that it runs
  readonly usesGpu: boolean; // where it fails, another engine may still compute
  readonly device: string; // "Chrome 156, 8 threads, NVIDIA ..."
  readonly guessWeightFactor: (quantisation: string) => number;
  // How much of this memory the device gives; absent where nothing is to be found out.
  readonly probe?: (memoryBytes: number) => Promise<number>;
  // `alsoHeld`: bytes of the offer that the tab uses for something else, such as another engine.
  readonly make: (
    memoryBytes: number,
    alsoHeld: () => number,
    manifest: Manifest,
  ) => Promise<StageEngine>;
}

export interface HostParts {
  readonly kind: "web" | "headless"; // of worker, for the picture of the swarm
  // "" where another engine computes what the GPU cannot; else what its user may do.
  readonly withoutGpu: string;
  readonly openSocket: (url: string, events: SocketEvents) => Socket;
  // Sockets to these servers, and what is fetched of them, may be wanted from now on. A browser
  // knows by itself whom it trusts.
  readonly knowServers: (servers: readonly Server[]) => void;
  readonly fetch: Fetch;
  // Threads that fetch blobs; null: `fetch` has its own, or there are none.
  readonly blobFetcher: BlobFetcher | null;
  // Gives null where nothing outlives the tab.
  readonly openStore: () => Promise<BlobStore | null>;
  readonly chooseEngine: (wish: EngineWish) => Promise<EngineOffer>;
  readonly publish: (message: FromWorker) => void;
  readonly now: () => number;
  readonly random: () => number;
  // "" where this device may help, else the reason why it cannot.
  readonly obstacle: () => string;
}
