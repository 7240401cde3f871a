// Dispatches of the operations with recurrent state: a workgroup for some columns of a session,
// which takes all its rows of the pass in order.
import {
  causalConvOp,
  deltaRuleOp,
  recurrentKernels,
  ssmScanOp,
} from "../kernels/recurrent/recurrent.ts";
import { kNone } from "../kernels/common/op.ts";
import { overlap, stateFloats, stateFloatsOf } from "../program/ir.ts";
import type { CausalConv, DeltaRule, SsmScan } from "../program/ir.ts";
import type { Bound, Draft } from "./dispatch.ts";
import { kMaxRows } from "./layout.ts";
import type { LayerContext } from "./layerContext.ts";

type Recurrent = CausalConv | DeltaRule | SsmScan;

const kConvStretch = 16; // rows of a column that a thread of a causal convolution takes

const always = (): boolean => true;

// Where the operation's state lies: behind that of the operations before it.
function stateOf(context: LayerContext, op: Recurrent): {
  rowsAt: number;
  stateLayer: number;
  slotFloats: number;
  stateAt: number;
} {
  const { program } = context.layer;
  const before = program.ops.slice(0, program.ops.indexOf(op));
  return {
    rowsAt: context.rowsAt,
    stateLayer: context.stateLayer,
    slotFloats: stateFloats(program),
    stateAt: before.reduce((sum, other) => sum + stateFloatsOf(program, other), 0),
  };
}

function boundOf({ vectors, kv }: LayerContext): Bound {
  return kv ? { vectors, kv } : { vectors };
}

export function recurrentDraft(context: LayerContext, op: Recurrent): Draft {
  switch (op.kind) {
    case "causalConv":
      return convDraft(context, op);
    case "deltaRule":
      return deltaDraft(context, op);
    case "ssmScan":
      return scanDraft(context, op);
  }
}

function convDraft(context: LayerContext, op: CausalConv): Draft {
  const taps = context.layer.program.weights[op.weight]!.shape[1]!;
  // Written over what it reads, every row is needed by the rows behind it.
  const stretch = overlap(op.in, op.out) ? kMaxRows : kConvStretch;
  const params = causalConvOp.bytes({
    ...stateOf(context, op),
    in: context.place(op.in),
    out: context.place(op.out),
    columns: op.in.columns,
    weight: context.vector(op.weight),
    bias: op.bias === null ? kNone : context.vector(op.bias),
    silu: op.silu,
    stretch,
  });
  return {
    variant: recurrentKernels.causalConv(taps),
    params,
    bound: boundOf(context),
    grid: ({ runs, rows }) => [
      Math.ceil(op.in.columns / 64),
      runs,
      Math.ceil((rows - runs + 1) / stretch), // of the longest run that there may be
    ],
    when: always,
  };
}

function deltaDraft(context: LayerContext, op: DeltaRule): Draft {
  const params = deltaRuleOp.bytes({
    ...stateOf(context, op),
    q: context.place(op.q),
    k: context.place(op.k),
    v: context.place(op.v),
    a: context.place(op.a),
    b: context.place(op.b),
    out: context.place(op.out),
    keyHeads: op.keyHeads,
    valueHeads: op.valueHeads,
    valueColumns: op.valueColumns,
    tiled: op.groups === 1,
    decay: context.vector(op.decay),
    dtBias: context.vector(op.dtBias),
  });
  return {
    variant: recurrentKernels.deltaRule(op.keyColumns),
    params,
    bound: boundOf(context),
    grid: ({ runs }) => [Math.ceil(op.valueColumns / 64), op.valueHeads, runs],
    when: always,
  };
}

function scanDraft(context: LayerContext, op: SsmScan): Draft {
  const params = ssmScanOp.bytes({
    ...stateOf(context, op),
    x: context.place(op.x),
    b: context.place(op.b),
    c: context.place(op.c),
    dt: context.place(op.dt),
    out: context.place(op.out),
    heads: op.heads,
    headColumns: op.headColumns,
    groups: op.groups,
    decay: context.vector(op.decay),
    dtBias: context.vector(op.dtBias),
    skip: context.vector(op.skip),
    dtMin: op.dtMin,
    dtMax: op.dtMax,
  });
  return {
    variant: recurrentKernels.ssmScan(op.stateColumns),
    params,
    bound: boundOf(context),
    grid: ({ runs }) => [Math.ceil(op.headColumns / 64), op.heads, runs],
    when: always,
  };
}
