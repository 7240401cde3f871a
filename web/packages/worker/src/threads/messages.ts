// What the page and its worker say to each other (postMessage). The page never sees the wire.

import type { Server } from "./serverList.ts";

export type EngineChoice = "auto" | "webgpu" | "wasm";

// `start` begins helping: nothing is computed, downloaded or connected before it.
export type ToWorker =
  | {
      kind: "start";
      serverOrigin: string; // "https://host:port", where the page came from
      // Servers that are tried where that one does not answer; absent: none.
      moreServers?: readonly Server[];
      joinToken: string; // "" when the server asks for none
      name: string; // shown in the picture of the swarm
      workerId: string; // random, kept by the device: the same device after a reload
      memoryBytes: number; // the offer, never exceeded
      // The most of it that may be lent where no GPU computes, whose memory it may be; absent: all.
      processorBytes?: number;
      // Of the time, what it may compute: 0.25 rests three times as long as it computed. Absent: 1.
      share?: number;
      isPhone: boolean; // its system ends tabs that take much memory, without a word
      engine: EngineChoice;
    }
  | { kind: "stop" } // the user's button: says Leaving, hands over what it does, frees everything
  | { kind: "leaving" } // the page goes away, or is frozen: only a short message gets out
  // The whole model in this tab, or not any longer; the key shows that its user may.
  | { kind: "runHere"; isWanted: boolean; apiKey: string }
  | { kind: "forgetCache" }; // deletes every cached weight

export type WorkerPhase =
  | "connecting"
  | "measuring"
  | "idle" // connected, without a stage
  | "downloading"
  | "loading"
  | "ready" // holds a stage, waits for steps
  | "computing"
  | "reconnecting"
  | "stopped"
  | "refused"; // trying again would not help: `message` says what would

// Whether this device runs the whole model because its user said so, or could, or waits for the
// consent of the swarm's owner.
export type WholeHere = "no" | "possible" | "asked" | "here";

export interface WorkerStatus {
  phase: WorkerPhase;
  message: string; // a full sentence for people
  engine: string; // "ort-wasm", "ort-webgpu", ...; "" before it is chosen
  engineDetail: string; // with which of its kernels, or on how many threads; or ""
  modelName: string;
  layerCount: number; // of the model, with embedding and head; 0 before it is known
  layers: [number, number] | null; // [first, end) of the stage that computes
  expertsHeld: number; // for hubs on other devices
  expertCalls: number; // dispatches of hubs that were computed
  download: { doneBytes: number; totalBytes: number } | null;
  memoryBytes: number; // the offer
  usedBytes: number; // weights, keys and values held now
  whole: WholeHere;
  wholeMessage: string; // what the server says of that, a sentence; mostly ""
  cachedBytes: number; // weights kept on this device for the next time
  keepsWeights: boolean; // false where the browser keeps none, as in a private window
  rowsComputed: number;
  stepsComputed: number;
  lastStepMs: number;
  rowsPerSecond: number; // over the last seconds of computing
  trafficBytes: number; // both ways since it began: weights, rows, messages
}

export interface FromWorker {
  kind: "status";
  status: WorkerStatus;
}

export function initialStatus(): WorkerStatus {
  return {
    phase: "stopped",
    message: "Not helping.",
    engine: "",
    engineDetail: "",
    modelName: "",
    layerCount: 0,
    layers: null,
    expertsHeld: 0,
    expertCalls: 0,
    download: null,
    memoryBytes: 0,
    usedBytes: 0,
    whole: "no",
    wholeMessage: "",
    cachedBytes: 0,
    keepsWeights: true,
    rowsComputed: 0,
    stepsComputed: 0,
    lastStepMs: 0,
    rowsPerSecond: 0,
    trafficBytes: 0,
  };
}
