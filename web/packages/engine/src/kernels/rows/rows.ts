// The kernels that work on rows one element or one row at a time: embedding, norms, sums and the
// like, and what looks at rows that come and go over the wire.
import { Binding } from "../common/bindings.ts";
import { named } from "../common/numbers.ts";
import { declareOp } from "../common/op.ts";
import { reduceOf } from "../common/reduce.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import { Activation, isKQuant, upperBitsOf } from "../../program/ir.ts";
import { weightFragments } from "../product/fragments.ts";
import activation from "../common/fragments/activation.wgsl?raw";
import common from "../common/fragments/common.wgsl?raw";
import dotEight from "../common/fragments/dot_eight.wgsl?raw";
import actF32 from "../common/fragments/act_f32.wgsl?raw";
import check from "./check.wgsl?raw";
import elementwise from "./elementwise.wgsl?raw";
import embed from "./embed.wgsl?raw";
import embedBlocks from "./embed_blocks.wgsl?raw";
import embedKQuants from "./embed_kquants.wgsl?raw";
import norm from "./norm.wgsl?raw";
import unpack from "./unpack.wgsl?raw";

export const embedOp = declareOp({
  rowsAt: "u32",
  out: "place",
  columns: "u32",
  blocks: "u32",
  rowFirst: "u32", // of this slab
  rowEnd: "u32",
  zeroBase: "u32",
  scale: "f32",
  chainAt: "u32", // in `aux`
  roundKind: "u32", // Rounding
});

export const normOp = declareOp({
  rowsAt: "u32",
  in: "place",
  out: "place",
  columns: "u32", // of a group
  weight: "u32",
  bias: "u32", // kNone: none
  epsilon: "f32",
  isLayerNorm: "bool",
  residual: "place", // added to the norm; base kNone: nothing is
  factor: "f32", // of the sum
  roundKind: "u32", // Rounding
});

export const Elementwise = {
  add: 0,
  scale: 1,
  softcap: 2,
  gated: 3,
  copy: 4,
  gather: 5,
  gateIdentity: 6,
  gateSigmoid: 7,
  gateSilu: 8,
} as const;

export const elementwiseOp = declareOp({
  rowsAt: "u32",
  a: "place",
  b: "place",
  out: "place",
  columns: "u32",
  kind: "u32", // Elementwise
  isOneGate: "bool", // b has a single column
  value: "f32",
  activation: "u32",
  roundKind: "u32", // Rounding
});
export type ElementwiseParams = Parameters<typeof elementwiseOp.bytes>[0];

export const checkOp = declareOp({
  rowsAt: "u32",
  rows: "place",
  columns: "u32",
  packed: "place", // in words; base kNone: nothing is packed
  packedKind: "u32", // Rounding, not f32
});

export const unpackOp = declareOp({
  rowsAt: "u32",
  packedBase: "u32",
  out: "place",
  columns: "u32",
  kind: "u32", // Rounding, not f32
});

const kCountingBindings = [Binding.op, Binding.act, Binding.aux];

export const rowKernels = {
  embed(dtype: number): Variant {
    const name = `embed dtype ${dtype}`;
    if (isKQuant(dtype)) {
      const constants = { kUpperBits: upperBitsOf(dtype) };
      const parts = [common, actF32, embedKQuants, embed];
      return variant({ name, op: embedOp, constants, parts });
    }
    const weights = [dotEight, ...weightFragments(dtype, "f32"), embedBlocks];
    return variant({ name, op: embedOp, parts: [common, actF32, ...weights, embed] });
  },
  norm: (): Variant =>
    variant({ name: "norm", op: normOp, parts: [common, actF32, reduceOf("f32"), norm] }),
  elementwise: (): Variant =>
    variant({
      name: "elementwise",
      op: elementwiseOp,
      numbers: named("Elementwise", Elementwise) + named("Activation", Activation),
      parts: [common, actF32, activation, elementwise],
    }),
  check: (): Variant =>
    variant({ name: "check", op: checkOp, parts: [check], bindings: kCountingBindings }),
  unpack: (): Variant =>
    variant({ name: "unpack", op: unpackOp, parts: [unpack], bindings: kCountingBindings }),
} as const;
