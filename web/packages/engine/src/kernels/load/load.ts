// The kernels that bring weights into the order that products read.
import { Binding } from "../common/bindings.ts";
import { named } from "../common/numbers.ts";
import { declareOp } from "../common/op.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import interleave from "./interleave.wgsl?raw";
import repack from "./repack.wgsl?raw";

export const RepackKind = {
  data: 0,
  scales: 1,
  zeros: 2,
  multipliers: 3,
  superScales: 4,
  kQuantParts: 5,
  kQuantFactors: 6,
} as const;

export const repackOp = declareOp({
  kind: "u32", // RepackKind
  recordBytes: "u32", // of a superblock
  rowBytes: "u32",
  rows: "u32", // in `source`
  words: "u32", // of the result, per group
  outBase: "u32", // word where the first group goes
  groupStep: "u32",
  groups: "u32",
  threadsX: "u32",
});
export type RepackParams = Parameters<typeof repackOp.bytes>[0];

export const repackKernel = (): Variant =>
  variant({
    name: "repack",
    op: repackOp,
    numbers: named("Repack", RepackKind),
    parts: [repack],
    bindings: [Binding.op, Binding.vectors, Binding.kv],
  });

// For data whose rows need no padding: takes the same parameters.
export const interleaveKernel = (): Variant =>
  variant({
    name: "interleave",
    op: repackOp,
    parts: [interleave],
    bindings: [Binding.op, Binding.vectors, Binding.kv],
  });
