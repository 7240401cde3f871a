// The kernels that find the best of a row of logits, and sums over all of them.
import { kMaxCandidates } from "../../sampling/tokenLogit.ts";
import { named } from "../common/numbers.ts";
import { declareOp } from "../common/op.ts";
import { reduceOf } from "../common/reduce.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import common from "../common/fragments/common.wgsl?raw";
import actF32 from "../common/fragments/act_f32.wgsl?raw";
import argmax from "./argmax.wgsl?raw";
import scaledSum from "./scaled_sum.wgsl?raw";
import topK from "./top_k.wgsl?raw";

// Parts of the vocabulary that workgroups of argmax.wgsl look at, one each.
export const kMaxStretches = 128;

// Candidates that a workgroup of top_k.wgsl sorts; it keeps the kMaxCandidates best.
export const kSortedList = 2048;

export const argmaxOp = declareOp({
  rowsAt: "u32",
  logits: "place",
  vocabulary: "u32",
  partialAt: "u32", // in `aux`, 8 words a stretch
  resultAt: "u32", // in `aux`, `resultStride` words a row
  resultStride: "u32",
  chainAt: "u32", // in `aux`, a word a seat
  historyAt: "u32", // in `aux`: history[slot of the step + row] gets the token; kNone: not kept
  stretches: "u32", // at most kMaxStretches
});

export const topKOp = declareOp({
  rowsAt: "u32",
  fromLogits: "bool",
  in: "place", // logits: in `act`; else in `aux`, two words a candidate: id, logit
  count: "u32", // candidates of a row
  out: "place", // in `aux`
});

export const scaledSumOp = declareOp({
  rowsAt: "u32",
  logits: "place",
  vocabulary: "u32",
  resultAt: "u32", // in `aux`, argmax.wgsl's
  resultStride: "u32",
  outAt: "u32", // in `aux`, a word a stretch
  stretches: "u32", // as argmax.wgsl
});

export const selectKernels = {
  argmax: (isMerge: boolean): Variant =>
    variant({
      name: "argmax",
      op: argmaxOp,
      constants: { kMerge: isMerge },
      parts: [common, actF32, reduceOf("f32"), argmax],
    }),
  topK: (): Variant =>
    variant({
      name: "top_k",
      op: topKOp,
      numbers: named("", { list: kSortedList, keep: kMaxCandidates }),
      parts: [common, actF32, topK],
    }),
  scaledSum: (): Variant =>
    variant({
      name: "scaled_sum",
      op: scaledSumOp,
      parts: [common, actF32, reduceOf("f32"), scaledSum],
    }),
} as const;
