// What a worker needs of the browser (sockets, storage, GPU), as interfaces: the entry gives
// the real ones, tests give fakes.
import type { StageEngine } from "@weft/engine";

import type { BlobStore } from "../download/blobStore.ts";
import type { Manifest } from "../download/manifest.ts";
import type { EngineChoice, FromWorker, ToWorker } from "./messages.ts";
import type { Fetch } from "../download/serverHttp.ts";

export type Start = Extract<ToWorker, { kind: "start" }>;

// This is as much of a WebSocket as is used.
export interface Socket {
  send(message: Uint8Array<ArrayBuffer>): void;
  close(): void;
}

export interface SocketEvents {
  onOpen(): void;
  onMessage(message: Uint8Array): void;
  onClose(): void;
}

// What the user chose, or "onnx": whatever runs ONNX graphs, for a package without programs.
export type EngineWish = EngineChoice | "onnx";

// An engine that this tab can make.
export interface EngineOffer {
  readonly name: string; // "ort-wasm", ...
  readonly needsOnnx: boolean; // runs graphs, not programs
  readonly makesTokens: boolean; // can choose tokens by itself where it holds all layers
  readonly usesGpu: boolean; // where it fails, another engine may still compute
  readonly device: string; // "Chrome 156, 8 threads, NVIDIA ..."
  readonly guessWeightFactor: (quantisation: string) => number;
  // How much of this memory the device gives; absent where nothing is to be found out.
  readonly probe?: (memoryBytes: number) => Promise<number>;
  // `alsoHeld`: bytes of the offer that the tab uses for something else.
  readonly make: (
    memoryBytes: number,
    alsoHeld: () => number,
    manifest: Manifest,
  ) => Promise<StageEngine>;
}

export interface HostParts {
  readonly openSocket: (url: string, events: SocketEvents) => Socket;
  readonly fetch: Fetch;
  // Gives null where nothing outlives the tab.
  readonly openStore: () => Promise<BlobStore | null>;
  readonly chooseEngine: (wish: EngineWish) => Promise<EngineOffer>;
  readonly publish: (message: FromWorker) => void;
  readonly now: () => number;
  readonly random: () => number;
  // "" where this page may help, else the reason why it cannot.
  readonly obstacle: () => string;
}
