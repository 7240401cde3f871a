// StageEngine: runs the layers of a range over ragged batches of rows. The same words as
// src/engine/engine.h; here every verb that computes is asynchronous. One caller at a time: a verb
// is called when the one before it has settled.
//
// Sessions. Every layer has a generation and a length for each session that it knows, so that
// layers which a worker gains can be filled while the others go on. A run of rows names (session,
// generation, first position); the layers that it passes decide. An unknown session must begin at
// position 0. In the known generation the run must begin exactly at the layer's length. A higher
// generation truncates the layer to the run's first position, which must not lie beyond its length,
// and then appends. Anything else is refused with invalid_argument and changes nothing: wrong keys
// and values must be impossible, not unlikely.
//
// Every verb throws EngineError; what fails changes nothing.

import type { Program } from "../program/ir.ts";
import type { Sampling } from "../sampling/parameters.ts";
import type { TokenLogit } from "../sampling/tokenLogit.ts";

export interface LayerRange {
  readonly first: number;
  readonly end: number; // one past the last
}

// What the rows of a run give back.
export type Output =
  | { readonly kind: "none" }
  | { readonly kind: "hidden" } // every row: the residual stream after the last layer
  | { readonly kind: "argmax" } // last row: best token, its logit, margin to the second
  | CandidatesOutput
  | DrawOutput
  | { readonly kind: "logits" }; // every row: all logits (only for evaluation)

// Last row: the best 1 to kMaxCandidates tokens after penalties and biases, with sums over all.
// Without `sampling` nothing changes the logits.
export interface CandidatesOutput {
  readonly kind: "candidates";
  readonly count: number;
  readonly sampling?: Sampling;
}

// Last row: one token drawn from all logits, `uniform` in [0, 1), and the `count` raw best, 0 to
// kMaxTopLogprobs.
export interface DrawOutput {
  readonly kind: "draw";
  readonly count: number;
  readonly sampling: Sampling;
  readonly uniform: number;
}

// Consecutive tokens of one session.
export interface Run {
  readonly session: number;
  readonly generation: number;
  readonly firstPosition: number;
  readonly count: number;
  readonly output: Output;
  // Above 0: the position behind the run becomes a mark in layers with recurrent state, to which
  // the session may be cut back, and of which it then holds at most so many, up to kMaxMarks.
  readonly marks?: number;
}

// A program's `exchange` operation: the step stops, gives `out` away and goes on with what comes
// back. A long step comes in parts, [firstRow, firstRow + rowCount) of its rows.
export interface ExchangeRequest {
  readonly layer: number;
  readonly id: number; // of the operation
  readonly firstRow: number;
  readonly rowCount: number;
  readonly out: Float32Array; // [rowCount, out columns of the operation]
  readonly inColumns: number; // expected: [rowCount, inColumns]
}

export interface StepInput {
  readonly layers: LayerRange; // loaded
  readonly runs: readonly Run[]; // each session at most once
  readonly tokenIds: Int32Array; // [rows] when layers.first is 0, else empty
  readonly hidden: Float32Array; // [rows, hidden columns] when layers.first is not 0, else empty
  // Instead of `hidden`, for engines that pack: the rows' bits as they came over the wire.
  readonly packed?: Uint8Array<ArrayBuffer>;
  // Hidden rows are wanted as bits; only engines that pack give them so.
  readonly packOutput?: boolean;
  // Layers whose programs have exchange operations need it; what it throws fails the step.
  readonly exchange?: (request: ExchangeRequest) => Promise<Float32Array>;
}

// What a run gets whose output is argmax (two candidates: best and runner-up), candidates or a draw
// (the raw best). They are in order of falling logit, equal logits of rising id.
export interface Selection {
  readonly candidates: readonly TokenLogit[];
  readonly logsumexp: number; // of the raw logits over the whole vocabulary
  // Candidates: sum over the vocabulary of exp((logit - best) / temperature), after penalties.
  readonly scaledSum?: number;
  readonly drawn?: TokenLogit; // a draw: the token and its raw logit
}

export interface StepOutput {
  readonly hidden: Float32Array; // rows of all hidden runs in order, [rows, hidden columns]
  readonly packed?: Uint8Array<ArrayBuffer>; // the same as bits, `hidden` then empty
  readonly selections: readonly Selection[]; // in order of the runs that ask for one
  readonly logits: Float32Array; // rows of all logits runs in order, [rows, vocabulary]
}

export interface MemoryUse {
  readonly weightBytes: number; // as held, after repacking
  readonly kvBytes: number;
  readonly scratchBytes: number;
}

// Where an engine gets what it loads. Bytes are verified before they are given out.
export interface WeightSource {
  // A blob of the package, by the hexadecimal digest that programs and graphs name.
  readBlob(digest: string): Promise<Uint8Array<ArrayBuffer>>;
  // Bytes [offset, offset + byteCount) of a blob, without holding all of it.
  readRange(
    digest: string,
    offset: number,
    byteCount: number,
  ): Promise<Uint8Array<ArrayBuffer>>;
  // The same in pieces that end at multiples of 4 bytes of the blob, or with the range, each good
  // until the next one is asked for: what lies in memory is not copied. Not every source has it.
  readPieces?(
    digest: string,
    offset: number,
    byteCount: number,
  ): AsyncIterable<Uint8Array<ArrayBuffer>>;
  // The engine holds all it needs of the layer: copies that were kept only for it may go.
  loaded(layer: number): Promise<void>;
  // The ONNX graph of layers [first, end); its weights are external data named by blob digest.
  readGraph(layers: LayerRange): Promise<Uint8Array<ArrayBuffer>>;
  // Digests of the weight blobs that a layer reads, and of its program ("" without one).
  layerBlobs(layer: number): readonly string[];
  layerProgram(layer: number): string;
  // Bytes of canonical (f16) keys and values that a position of the layer takes; 0 without.
  layerKvBytes(layer: number): number;
}

export interface GenerateRequest {
  readonly session: number;
  readonly generation: number;
  readonly firstPosition: number; // of `firstToken`
  readonly firstToken: number;
  readonly count: number; // tokens to make
  readonly interval: number; // tokens told at once
  readonly pipelined: boolean; // make the next ones while some are told
  readonly sampling?: Sampling; // absent: greedy
  // The first of these is told like any token and ends the generation: what was computed behind it
  // is thrown away.
  readonly stopTokens?: readonly number[];
  // Told of every batch, whether it is the last one, and how long the tokens took; false ends the
  // generation.
  readonly onTokens: (tokens: readonly number[], isLast: boolean, ms: number) => boolean;
  // It ends without a last batch, and the others go on: it cannot be, or has numbers that are not
  // finite.
  readonly onFailed?: (error: unknown) => void;
}

// Who takes part in whole-model decoding while it goes on.
export interface TokenSource {
  // Those that come in now, each session once: asked before every batch.
  readonly take: () => readonly GenerateRequest[];
  // Whether to end, with what has been told by then: asked before every batch but the first.
  readonly pauses: () => boolean;
}

// A session that begins as what another one holds up to a position.
export interface SessionFork {
  readonly from: number;
  readonly to: number;
  readonly generation: number; // of `to`, above those in which layers know it
  readonly positionCount: number; // at least 1
}

// What layers hold of a session.
export interface HeldSession {
  readonly generation: number; // of all layers; 0: they are in different ones
  readonly positions: number; // that each of the layers has; 0: the session is unknown
  readonly marks: readonly number[]; // that each layer with recurrent state has, ascending
}

export const kNothingHeld: HeldSession = { generation: 0, positions: 0, marks: [] };

export interface StageEngine {
  readonly name: string; // as Connect says it: "ort-wasm", "ort-webgpu", "webgpu"
  // Which of its ways of computing this device got, for people.
  readonly detail?: string;
  // Bytes kept for one byte of canonical KV, and whether a step holds a second copy of its
  // sessions' KV until it has succeeded.
  readonly kvFactor: number;
  readonly copiesKv: boolean;
  // What residual rows may come and go packed in, without a conversion by the caller.
  readonly packs?: "f16" | "bf16" | null;

  // Settles with a reason when the engine can compute no more (its GPU was lost); absent in engines
  // to which that cannot happen.
  readonly lost?: Promise<string>;

  // Loads the layers of the range that are not yet loaded; keeps those that are, with their KV.
  // `onBytes` is told of every piece that has reached its place; not every engine calls it.
  // `isPart`: more layers follow at once, so that what steps need beside the weights (kernels are
  // compiled) may still be under way at the end; the last call waits for that of all.
  load(
    layers: LayerRange,
    source: WeightSource,
    onBytes?: (bytes: number) => void,
    isPart?: boolean,
  ): Promise<void>;
  // Engines whose memory for keys and values grows have this: sessions are planned to hold so many
  // positions in all.
  planPositions?(count: number): void;
  // Engines that load beside steps have this: brings a layer's weights to where they are computed
  // with, beside any other verb. load() takes them over, unload() drops them.
  loadAhead?(layer: number, source: WeightSource): Promise<void>;
  // Engines that hold experts for others have this: loads a program that is not of the package
  // (program/shards.ts) as the layer that it says it is.
  loadProgram?(
    program: Program,
    source: WeightSource,
    onBytes?: (bytes: number) => void,
  ): Promise<void>;
  // Frees the layers of the range that are loaded, and their KV.
  unload(layers: LayerRange): Promise<void>;
  isLoaded(layers: LayerRange): boolean;

  // An engine on a GPU takes steps of different sessions before the first has settled: they settle
  // in order, but for what is refused.
  step(input: StepInput): Promise<StepOutput>;

  // Engines that can choose tokens by themselves have these. Makes tokens with all layers of a
  // model, of several sessions in one batch; each then holds a position more for every token that
  // was told.
  generateAll?(layers: LayerRange, source: TokenSource): Promise<void>;
  // Of one session; the result is how many.
  generate?(layers: LayerRange, request: GenerateRequest): Promise<number>;

  // Forgets positions >= `position`. A session that does not exist is an error.
  truncate(session: number, generation: number, position: number): Promise<void>;
  // In these layers, which are loaded, `to` becomes what `from` holds of its first positions. Each
  // layer that holds anything must have so many of `from`, and recurrent state there.
  fork(layers: LayerRange, fork: SessionFork): Promise<void>;
  release(session: number): void;
  releaseAll(): void;
  // What is held for the session in the layers of the range.
  heldSession(session: number, layers: LayerRange): HeldSession;

  // Canonical KV of one layer: f16 [k|v][position][kv head][head column], positions
  // [first, first + count), as bits.
  exportKv(session: number, layer: number, first: number, count: number): Promise<Uint16Array>;
  importKv(
    session: number,
    generation: number,
    layer: number,
    first: number,
    count: number,
    kv: Uint16Array,
  ): Promise<void>;

  memory(): MemoryUse;
  // Bytes to count with for a byte of weights that are loaded or would be; absent where what
  // memory() says of the loaded ones holds for others too.
  weightFactor?(): number;
  // Ends the engine: frees everything it holds.
  dispose(): Promise<void>;
}
