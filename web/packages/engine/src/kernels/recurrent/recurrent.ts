// Operations that carry state from row to row of a session. Rows are taken strictly in order, so
// that bits do not depend on how a prompt is cut.
import { declareOp } from "../common/op.ts";
import { named } from "../common/numbers.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import { Activation } from "../../program/ir.ts";
import activation from "../common/fragments/activation.wgsl?raw";
import common from "../common/fragments/common.wgsl?raw";
import actF32 from "../common/fragments/act_f32.wgsl?raw";
import causalConv from "./causal_conv.wgsl?raw";
import deltaRule from "./delta_rule.wgsl?raw";
import ssmScan from "./ssm_scan.wgsl?raw";
import state from "./fragments/state.wgsl?raw";

// Where a layer's state lies: fragments/state.wgsl.
const kState = {
  rowsAt: "u32",
  stateLayer: "u32", // among the loaded layers with state
  slotFloats: "u32", // of a session in this layer
  stateAt: "u32", // of the operation in the slot
} as const;

export const causalConvOp = declareOp({
  ...kState,
  in: "place",
  out: "place",
  columns: "u32",
  weight: "u32",
  bias: "u32", // kNone: none
  silu: "bool",
  stretch: "u32", // rows that a thread takes
});

export const deltaRuleOp = declareOp({
  ...kState,
  q: "place",
  k: "place",
  v: "place",
  a: "place",
  b: "place",
  out: "place",
  keyHeads: "u32",
  valueHeads: "u32",
  valueColumns: "u32",
  tiled: "bool",
  decay: "u32",
  dtBias: "u32",
});

export const ssmScanOp = declareOp({
  ...kState,
  x: "place",
  b: "place",
  c: "place",
  dt: "place",
  out: "place",
  heads: "u32",
  headColumns: "u32",
  groups: "u32",
  decay: "u32",
  dtBias: "u32",
  skip: "u32",
  dtMin: "f32",
  dtMax: "f32", // 0: no upper limit
});

const kParts = [common, actF32, activation, state];
const kActivations = named("Activation", Activation);

// Sizes of arrays in registers and workgroup memory are constants of the text.
export const recurrentKernels = {
  causalConv: (taps: number): Variant =>
    variant({
      name: "causal conv",
      op: causalConvOp,
      constants: { kTaps: taps },
      numbers: kActivations,
      parts: [...kParts, causalConv],
    }),
  deltaRule: (keyColumns: number): Variant =>
    variant({
      name: "delta rule",
      op: deltaRuleOp,
      constants: {
        kKeyColumns: keyColumns,
        kRegisters: Math.ceil(keyColumns / 4), // of four values, a thread's state
        kSquareQuarters: Math.ceil(keyColumns / 16),
        kEach: Math.ceil(Math.ceil(keyColumns / 4) / 32), // pieces of a row that a thread brings
      },
      numbers: kActivations,
      parts: [...kParts, deltaRule],
    }),
  ssmScan: (stateColumns: number): Variant =>
    variant({
      name: "ssm scan",
      op: ssmScanOp,
      constants: { kStateColumns: stateColumns },
      numbers: kActivations,
      parts: [...kParts, ssmScan],
    }),
} as const;
