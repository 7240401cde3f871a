// What membership hears and what it asks for (docs/protocol.md, "Rooms of a worker"): plain values,
// so that tests read as tables of events and actions.
import type { HeldSession, LayerRange, SessionFork } from "@weft/engine";
import type {
  ExpertFrame,
  Frame,
  GenerateFrame,
  Init,
  LayerExperts,
  Sampling,
  encodeWorkerMessage,
} from "@weft/wire";

// The session that speed measurements use; no step may name it.
export const kMeasureSession = 0xffffffff;

export type WorkerKind = Parameters<typeof encodeWorkerMessage>[0];

// A server that may lead the swarm after the one that names it.
export interface Successor {
  readonly url: string; // "wss://host:port"
  readonly fingerprint: string; // SHA-256 of its certificate, in hex; "": whom the system trusts
}

// Why a worker is over, and its connection with it. `refused`: trying again would not help.
// `engineFailed`: the GPU's engine cannot be made, or its driver refuses a kernel; another engine
// may help. `engineStopped`: an engine that was made fails again and again; a new one may do
// better. `notLowered`: the package has no programs, and this engine runs nothing else.
export interface Ending {
  readonly kind: "refused" | "retry" | "engineFailed" | "engineStopped" | "notLowered";
  readonly message: string;
}

export interface Fault {
  readonly code: string; // an error code of the wire, as Failed and StepFailed carry it
  readonly message: string;
  readonly isKernelRefused: boolean;
}

// The Connect to send, without what is held since an earlier connection.
export interface ConnectKind {
  readonly case: "connect";
  readonly value: Extract<
    Extract<WorkerKind, { case: "connect" }>["value"],
    { $typeName?: never }
  >;
}

// A binding that is loaded since an earlier connection, and what its layers hold of each session.
export interface HeldBinding {
  readonly id: number;
  readonly stage: number;
  readonly layers: LayerRange;
  readonly sessions: readonly number[];
  readonly positions: readonly number[]; // one for each of sessions
  readonly claims?: readonly ({ readonly session: number } & HeldSession)[]; // the same, and more
}

// A binding whose layers are looked at.
export interface StockBinding {
  readonly id: number;
  readonly stage: number;
  readonly layers: LayerRange;
  readonly isHub: boolean;
}

// What joining has found out of the package and of this device.
export interface JoinedAs {
  readonly connect: ConnectKind;
  readonly layerBytes: readonly number[]; // weights of each layer
}

// Rows made from a seed that this device computes behind these layers.
export interface Probe {
  readonly layers: LayerRange;
  readonly seed: bigint;
  readonly rows: number;
}

export interface ProbeAnswer {
  readonly digest: Uint8Array<ArrayBuffer>; // SHA-256 of all rows as the wire has them
  readonly samples: readonly number[];
}

export interface Timing {
  readonly layers: LayerRange;
  readonly runUs: readonly number[];
}

// What one piece of work came to.
export type Outcome =
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly fault: Fault }
  | { readonly kind: "installed"; readonly weightFactor: number; readonly usedBytes: number }
  // `rest` sets of experts are still to be loaded; `usedBytes` of the offer are those that are.
  | { readonly kind: "expertsInstalled"; readonly rest: number; readonly usedBytes: number }
  // A result for every dispatch; the fault is what the engine failed with, if it did.
  | {
      readonly kind: "expertRows";
      readonly results: readonly ExpertFrame[];
      readonly computeMs: number;
      readonly fault: Fault | null;
    }
  | {
      readonly kind: "measured";
      readonly timings: readonly Timing[];
      readonly answers: readonly ProbeAnswer[];
    }
  | { readonly kind: "computed"; readonly message: Uint8Array<ArrayBuffer> } // the result frame
  | { readonly kind: "paused" } // MakeTokens: all of its Generates have ended, or it was to pause
  | { readonly kind: "stock"; readonly bindings: readonly HeldBinding[] };

export type Event =
  // One WebSocket message; `arrival` in ms on the caller's clock.
  | { readonly kind: "messageReceived"; readonly message: Uint8Array; readonly arrival: number }
  | { readonly kind: "joined"; readonly as: JoinedAs | Ending }
  | {
      readonly kind: "fetchProgressed";
      readonly doneBytes: number;
      readonly totalBytes: number;
    }
  // It is there and verified.
  | {
      readonly kind: "layerFetched";
      readonly layer: number;
      readonly byteCount: number; // 0: it was there
      readonly elapsedUs: number;
    }
  // The fault is null where all of it is there and verified, and has the code `cancelled` where the
  // fetch was interrupted.
  | { readonly kind: "fetchEnded"; readonly fault: Fault | null }
  // Of one Generate of the MakeTokens under way: some tokens, or that it has failed alone.
  | {
      readonly kind: "tokensMade";
      readonly sequence: number;
      readonly tokens: readonly number[];
      readonly computeMs: number;
      readonly isLast: boolean;
    }
  | { readonly kind: "tokensFailed"; readonly sequence: number; readonly fault: Fault }
  // The step of a hub that is under way has stopped at a layer's experts: rows
  // [tokens, hidden + 2 * slots], each with its route behind it. `giveRows` or `refuseRows` is the
  // answer.
  | {
      readonly kind: "rowsWait";
      readonly layer: number;
      readonly slots: number; // of a row; 0: rows are for all neuron groups
      readonly tokens: number;
      readonly hidden: number;
      readonly rows: Float32Array;
    }
  | { readonly kind: "workDone"; readonly outcome: Outcome }
  // `apiKey` shows that the user may ask for it; empty: there is none.
  | { readonly kind: "wholeWished"; readonly isWanted: boolean; readonly apiKey: string }
  // The user goes. Draining: steps are answered until the connection is lost.
  | { readonly kind: "leaveAsked"; readonly reason: string; readonly isDraining: boolean }
  // The connection broke. Nothing is sent from then on; what is held stays for a while. `now` as
  // `arrival`.
  | { readonly kind: "connectionLost"; readonly now: number }
  // There is another connection: its Init comes next.
  | { readonly kind: "connectedAgain"; readonly now: number }
  // The time of `keepFor` is over.
  | { readonly kind: "keptLongEnough"; readonly now: number };

// What the engine's side does, one at a time.
export type Work =
  // One layer of a stage, the last of them or not; `doneBytes` of the stage's `totalBytes` were
  // installed before it.
  | {
      readonly kind: "installLayers";
      readonly binding: number;
      readonly layers: LayerRange;
      readonly isHub: boolean; // without their experts
      readonly isLast: boolean;
      readonly doneBytes: number;
      readonly totalBytes: number;
    }
  | {
      readonly kind: "measureSpeed";
      readonly ranges: readonly LayerRange[];
      readonly runs: number;
      readonly probes: readonly Probe[];
    }
  | {
      readonly kind: "runStep";
      readonly frame: Frame;
      readonly layers: LayerRange;
      readonly isHub: boolean;
      readonly arrival: number;
    }
  // The next of these sets of experts; what they do not name goes.
  | {
      readonly kind: "installExperts";
      readonly binding: number;
      readonly sets: readonly LayerExperts[];
    }
  // The dispatches of one of a hub's messages.
  | {
      readonly kind: "runExperts";
      readonly hub: number;
      readonly dispatches: readonly ExpertFrame[];
    }
  // Batches of these Generates, and of those that join them.
  | {
      readonly kind: "makeTokens";
      readonly frames: readonly GenerateFrame[];
      readonly layers: LayerRange;
    }
  // A session begins as another one in these layers.
  | {
      readonly kind: "forkSession";
      readonly layers: LayerRange;
      readonly isHub: boolean;
      readonly fork: SessionFork;
    }
  | { readonly kind: "takeSampling"; readonly sampling: Sampling }
  | { readonly kind: "releaseSessions"; readonly sessions: readonly number[] }
  | { readonly kind: "releaseAll" }
  // `hubs`: of the layers that are loaded without their experts.
  | {
      readonly kind: "keepLayers";
      readonly keep: readonly LayerRange[];
      readonly hubs: readonly LayerRange[];
    }
  // Looks up what the layers of these bindings hold of these sessions.
  | {
      readonly kind: "takeStock";
      readonly bindings: readonly StockBinding[];
      readonly sessions: readonly number[];
    };

// What the page is told of it.
export interface Shown {
  readonly phase?: "measuring" | "idle" | "downloading" | "loading" | "ready" | "computing";
  readonly message?: string; // a full sentence for people
  readonly modelName?: string;
  readonly layers?: [number, number] | null; // [first, end) of the stage that computes
  readonly expertsHeld?: number; // for hubs
  readonly download?: { doneBytes: number; totalBytes: number } | null;
  readonly whole?: "no" | "possible" | "asked" | "here";
  readonly wholeMessage?: string; // why the server has not done what was wished, or why not yet
}

export type Action =
  | { readonly kind: "sendControl"; readonly message: WorkerKind }
  | { readonly kind: "sendFrame"; readonly message: Uint8Array<ArrayBuffer> }
  // The manifest and the speed of the line; what was made for another package goes. Asked for while
  // nothing is under way.
  | { readonly kind: "join"; readonly init: Init }
  // Layers to this device, verified, in their order, or experts; its FetchEnded brings the next.
  // Of a hub's layers everything but experts comes, and nobody is told of single layers.
  | {
      readonly kind: "fetch";
      readonly ranges: readonly LayerRange[];
      readonly isHub: boolean;
      readonly experts: readonly LayerExperts[];
    }
  | { readonly kind: "interruptFetch" } // the one under way: FetchEnded still comes
  | { readonly kind: "compute"; readonly work: Work } // its WorkDone brings the next
  // Of the MakeTokens under way: one Generate more; nobody wants the rest of one; other work
  // waits, so that it is to end behind the next batch.
  | { readonly kind: "joinTokens"; readonly frame: GenerateFrame }
  | { readonly kind: "stopTokens"; readonly sequence: number }
  | { readonly kind: "pauseTokens" }
  // What a hub's step waits for: [tokens, hidden] of its `rowsWait`, or why they do not come.
  | { readonly kind: "giveRows"; readonly rows: Float32Array }
  | { readonly kind: "refuseRows"; readonly message: string }
  | { readonly kind: "finish"; readonly ending: Ending } // once, the last one
  // This connection is over, and the next one may do better: it is to be closed, and another one to
  // be opened with what is held. Nothing is sent after it. `isLater`: the server has asked for a
  // pause.
  | { readonly kind: "hangUp"; readonly reason: string; readonly isLater: boolean }
  // The servers that may lead this swarm after this one, in the order in which they are to be
  // tried. They take the place of those that were told before.
  | { readonly kind: "knowSuccessors"; readonly successors: readonly Successor[] }
  | { readonly kind: "keepFor"; readonly ms: number } // `keptLongEnough` is to be told after this
  // When nothing at all was heard of the server for this time, the connection is lost.
  | { readonly kind: "limitSilence"; readonly ms: number }
  | { readonly kind: "show"; readonly shown: Shown }
  | { readonly kind: "wholeEnded" }; // the server has ended RunHere
