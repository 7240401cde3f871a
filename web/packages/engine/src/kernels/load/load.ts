// The kernel that brings weights into the order that products read.
import { Binding } from "../common/bindings.ts";
import { declareOp } from "../common/op.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import repack from "./repack.wgsl?raw";

export const repackOp = declareOp({
  kind: "u32", // 0: data, 1: scales, 2: zero points
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
    parts: [repack],
    bindings: [Binding.op, Binding.vectors, Binding.kv],
  });
