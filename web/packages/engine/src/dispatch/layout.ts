// Where everything lies in the two scratch buffers that all layers share: `act` (f32 values: the
// residual stream, logits, the programs' own buffers) and `aux` (words: selections). Sized for the
// most that the loaded layers need; only loading changes it.
import { kMaxSeats } from "../base/seats.ts";
import type { Place } from "../kernels/common/op.ts";
import { headRuns } from "./headRuns.ts";
import type { LoadedLayer } from "./loadedLayer.ts";
import { buffersOf } from "./residual.ts";
import { kMaxStretches, kSortedList } from "../kernels/select/select.ts";
import { kMaxCandidates } from "../sampling/tokenLogit.ts";
import { orderWords } from "../kernels/experts/experts.ts";
import { kSamplerWords } from "../kernels/sample/sample.ts";
import {
  endsInLogits,
  findAttention,
  isBlockFormat,
  kBlockValues,
  outColumnsOf,
} from "../program/ir.ts";
import type { MatMul, MoeExperts, Program } from "../program/ir.ts";

// Rows of one pass through the layers: what there is room for at first, and what longer steps get
// where memory allows.
export const kUsualRows = 128;
export const kMaxRows = 512;
export const kHeadRows = 8; // of one pass through the output head, at least
// Sessions of one batch of whole-model decoding: one until there are more, then as many as these.
export const kSeatCounts: readonly number[] = [1, kHeadRows, kMaxSeats];
// Split attention: for so many rows at most; a chunk is 256 positions, more chunks than these go
// one after another.
export const kSplitRows = 8;
export const kSplitFrom = 3;
export const kSplitChunks = 64;
const kStretchTokens = 1024; // of small vocabularies
export const kResultHeader = 8; // words of a selection before its candidates
export const kResultWords = kResultHeader + 2 * kMaxCandidates;
export const kHistory = 1024; // tokens that whole-model decoding may leave unfetched

export interface Needs {
  readonly hiddenColumns: number;
  readonly vocabulary: number;
  readonly privateValues: number; // of the buffers between a program's dispatches, all rows
  readonly splitValues: number;
  readonly expertValues: number;
  readonly planeVecs: number; // of quantised inputs, all rows
  readonly orderWords: number; // of rows in the order of experts
  readonly headRows: number; // of one pass through the output head; 0: there is none
}

export interface Layout {
  readonly needs: Needs;
  readonly bodyRows: number; // of one pass through the layers
  readonly headRows: number; // of one pass through the output head
  readonly seats: number; // of whole-model decoding, one of its head's rows and a sampler each
  readonly residual: Place;
  readonly headInput: Place;
  readonly logits: Place;
  readonly privateBase: number;
  readonly splitBase: number;
  readonly expertBase: number;
  readonly packedBase: number; // rows of the residual stream as they cross the wire
  readonly actValues: number;
  readonly aux: AuxLayout;
}

export interface AuxLayout {
  readonly chainAt: number; // a word a seat
  readonly resultAt: number;
  readonly partialAt: number;
  readonly historyAt: number;
  readonly sumsAt: number; // up to kMaxStretches of a row of the head (scaled_sum.wgsl)
  readonly samplerAt: number; // `samplerStride` words a seat
  readonly samplerStride: number;
  readonly candidatesAt: number;
  readonly candidateStride: number; // of a row, one level
  readonly orderAt: number; // a multiple of 4
  readonly planesAt: number; // a multiple of 4
  readonly words: number;
}

export function padded(columns: number): number {
  return Math.ceil(columns / 32) * 32;
}

// Of a pass through the output head, where so many sessions may have a seat.
export function headRowsOf(seats: number): number {
  return Math.max(kHeadRows, seats);
}

// Rows that a step gives the head at a time. One that is no wider than what goes in, as those of
// models that make embeddings are, is cheap, and often every row goes through it.
export function headPassRows({ buffers, input, output }: Program): number {
  const isNarrow = input !== null && buffers[output]!.columns <= buffers[input]!.columns;
  return isNarrow ? kMaxSeats : kHeadRows;
}

export function rowsOfLayer(program: Program, { bodyRows, headRows }: Layout): number {
  return endsInLogits(program) ? headRows : bodyRows;
}

export const kNoNeeds: Needs = {
  hiddenColumns: 0,
  vocabulary: 0,
  privateValues: 0,
  splitValues: 0,
  expertValues: 0,
  planeVecs: 0,
  orderWords: 0,
  headRows: 0,
};

export function needsOf(
  { program, fused }: Pick<LoadedLayer, "program" | "fused">,
  bodyRows: number,
  seats: number,
): Needs {
  const isHead = endsInLogits(program);
  const headRows = isHead ? Math.max(headPassRows(program), headRowsOf(seats)) : 0;
  const rows = isHead ? headRows : bodyRows;
  const outColumns = program.buffers[program.output]!.columns;
  const inColumns = program.input === null ? 0 : program.buffers[program.input]!.columns;
  let privateColumns = 0;
  for (const id of buffersOf(fused)) privateColumns += padded(program.buffers[id]!.columns);
  let expertValues = 0;
  let words = 0;
  for (const op of program.ops) {
    if (op.kind !== "moeExperts") continue;
    const { hidden, totals, route } = expertColumns(op, program);
    expertValues = Math.max(expertValues, rows * (hidden + totals + route));
    words = Math.max(words, orderWords(rows * op.topK, program.weights[op.down]!.shape[0]!));
  }
  const attention = findAttention(program);
  const pairs = attention ? (outColumnsOf(attention) + 1) >> 1 : 0;
  return {
    hiddenColumns: Math.max(inColumns, isHead ? 0 : outColumns),
    vocabulary: isHead ? outColumns : 0,
    privateValues: rows * privateColumns,
    splitValues: attention ? kSplitRows * attention.heads * kSplitChunks * (2 + 2 * pairs) : 0,
    expertValues,
    planeVecs: rows * planeVecsOf(program),
    orderWords: words,
    headRows,
  };
}

// What experts keep of a row between their dispatches, one behind the other for all rows: what goes
// into the second half of each of its experts, what comes out (moe_combine.wgsl), and the part of
// its route that names experts of a binding (moe_part.wgsl).
export function expertColumns(
  { down, topK }: Pick<MoeExperts, "down" | "topK">,
  { weights }: Pick<Program, "weights">,
): { readonly hidden: number; readonly totals: number; readonly route: number } {
  const [, rows, columns] = weights[down]!.shape as [number, number, number];
  return { hidden: topK * padded(columns), totals: topK * padded(rows), route: padded(2 * topK) };
}

// What the product takes for a row that takes most: the one with the most columns, or that of many
// heads, each with an input of its own.
function planeVecsOf({ ops, weights }: Program): number {
  let most = 0;
  // So many inputs of a row, each as long as a row of this weight.
  const take = (weight: number, inputs: number): void => {
    const blocks = Math.ceil(weights[weight]!.shape.at(-1)! / kBlockValues);
    // planes_superblocks.wgsl; blocks_planes.wgsl needs less.
    const vecs = 4 * blocks + Math.ceil(blocks / 2) + Math.ceil(blocks / 16) + 1;
    most = Math.max(most, inputs * vecs);
  };
  for (const op of ops) {
    if (op.kind !== "moeExperts") continue;
    if (isBlockFormat(weights[op.gateUp]!.dtype)) take(op.gateUp, 1);
    if (isBlockFormat(weights[op.down]!.dtype)) take(op.down, op.topK);
  }
  for (let at = 0; at < ops.length; ++at) {
    const matmuls: MatMul[] = [];
    for (; ops[at]?.kind === "matmul"; ++at) matmuls.push(ops[at] as MatMul);
    for (const { matmuls: heads, inStep } of headRuns(matmuls)) {
      take(heads[0]!.weight.weight, inStep > 0 ? heads.length : 1);
    }
  }
  return most;
}

export function mostOf(a: Needs, b: Needs): Needs {
  return {
    hiddenColumns: Math.max(a.hiddenColumns, b.hiddenColumns),
    vocabulary: Math.max(a.vocabulary, b.vocabulary),
    privateValues: Math.max(a.privateValues, b.privateValues),
    splitValues: Math.max(a.splitValues, b.splitValues),
    expertValues: Math.max(a.expertValues, b.expertValues),
    planeVecs: Math.max(a.planeVecs, b.planeVecs),
    orderWords: Math.max(a.orderWords, b.orderWords),
    headRows: Math.max(a.headRows, b.headRows),
  };
}

export function layoutOf(needs: Needs, bodyRows: number, seats = 1): Layout {
  const headRows = Math.max(headRowsOf(seats), needs.headRows);
  const hidden = padded(needs.hiddenColumns);
  const vocabulary = padded(needs.vocabulary);
  const headBase = bodyRows * hidden;
  const logitsBase = headBase + headRows * hidden;
  const privateBase = logitsBase + headRows * vocabulary;
  const splitBase = privateBase + needs.privateValues;
  const expertBase = splitBase + needs.splitValues;
  const packedBase = expertBase + needs.expertValues;
  return {
    needs,
    bodyRows,
    headRows,
    seats,
    residual: { base: 0, stride: hidden },
    headInput: { base: headBase, stride: hidden },
    logits: { base: logitsBase, stride: vocabulary },
    privateBase,
    splitBase,
    expertBase,
    packedBase,
    actValues: packedBase + (bodyRows * hidden) / 2,
    aux: auxLayout(needs, headRows, seats),
  };
}

// Words 0 and 1 count values that are not finite: computed (check.wgsl), come (unpack.wgsl).
function auxLayout(
  { vocabulary, planeVecs: vecs, orderWords: order }: Needs,
  headRows: number,
  seats: number,
): AuxLayout {
  const chainAt = 8;
  const resultAt = chainAt + kMaxSeats;
  const partialAt = resultAt + headRows * kResultWords;
  const historyAt = partialAt + headRows * kMaxStretches * 8;
  const sumsAt = historyAt + kHistory;
  const samplerAt = sumsAt + headRows * kMaxStretches;
  const samplerStride = kSamplerWords + 2 * vocabulary;
  const candidatesAt = samplerAt + seats * samplerStride;
  const candidateStride = 2 * kMaxCandidates * listsOf(vocabulary);
  const orderAt = 4 * Math.ceil((candidatesAt + 2 * headRows * candidateStride) / 4);
  const planesAt = orderAt + 4 * Math.ceil(order / 4);
  const words = planesAt + 4 * vecs;
  const places = { chainAt, resultAt, partialAt, historyAt, sumsAt, samplerAt, candidatesAt };
  return { ...places, samplerStride, candidateStride, orderAt, planesAt, words };
}

// The sum over the vocabulary depends on it: nothing but its size decides.
export function stretchesOf(vocabulary: number): number {
  return Math.min(kMaxStretches, Math.ceil(vocabulary / kStretchTokens));
}

// Lists that a level of top_k.wgsl makes of so many candidates.
export function listsOf(candidates: number): number {
  return Math.ceil(candidates / kSortedList);
}
