// A layer's fused operations as dispatches.
import {
  attentionKernels,
  attentionOp,
  fusedColumns,
  headsOp,
  HeadsTo,
  sharesInPairs,
  tileQueriesOf,
} from "../kernels/attention/attention.ts";
import type { HeadsPartParams } from "../kernels/attention/attention.ts";
import { gateKindOf } from "../kernels/common/gate.ts";
import { kNone } from "../kernels/common/op.ts";
import type { Place } from "../kernels/common/op.ts";
import { expertKernels, moeRouteOp } from "../kernels/experts/experts.ts";
import { Elementwise, elementwiseOp, embedOp, normOp, rowKernels } from "../kernels/rows/rows.ts";
import type { ElementwiseParams } from "../kernels/rows/rows.ts";
import { overlap, readsOf, RouteKind, same } from "../program/ir.ts";
import type { Attention, Embed, Exchange, Op, Program } from "../program/ir.ts";
import { isShard } from "../program/shards.ts";
import { kGroupRows } from "../weights/matrix.ts";
import { isSplit } from "./dispatch.ts";
import type { Draft, Grid, StepShape } from "./dispatch.ts";
import { recurrentDraft } from "./recurrent.ts";
import { expertDrafts } from "./experts.ts";
import type { Attending, Fused, Heads, HeadsPart, Normed } from "./fuse.ts";
import type { LayerContext } from "./layerContext.ts";
import { productDrafts } from "./products.ts";
import { finisherOf } from "./residual.ts";

const always = (): boolean => true;

// Where a step stops: before dispatch `at` of the layer.
export interface ExchangePoint {
  readonly at: number;
  readonly layer: number;
  readonly id: number;
  readonly out: Place;
  readonly outColumns: number;
  readonly in: Place;
  readonly inColumns: number;
}

export interface LayerDrafts {
  readonly drafts: Draft[];
  readonly exchanges: ExchangePoint[];
}

// Rows that leave the layer are rounded to `round` (Rounding), but not those of a head or a shard.
export function layerDrafts(context: LayerContext, round: number): LayerDrafts {
  const { program, fused } = context.layer;
  const kind = context.isHead || isShard(program) ? 0 : round;
  const finisher = finisherOf(program, fused);
  const heads = headsOfAttention(program, fused);
  const drafts: Draft[] = [];
  const exchanges: ExchangePoint[] = [];
  for (const [index, step] of fused.entries()) {
    if (step.kind === "single" && step.op.kind === "exchange") {
      exchanges.push(exchangeAt(context, step.op, drafts.length));
    } else if (heads && step === heads.step) {
      drafts.push(headsDraft(context, heads.step, isMany));
    } else if (heads && step === heads.attention) {
      drafts.push(...attentionDrafts(context, heads.attention, "many"));
      drafts.push(...attentionDrafts(context, heads.attention, "single", heads.parts));
    } else {
      drafts.push(...draftsOf(context, step, index === finisher ? kind : 0));
    }
  }
  const isRounded = finisher >= 0 || kind === 0;
  const { unaliasedOutput: own } = context;
  if (own || !isRounded) {
    drafts.push(copyDraft(context, own ?? context.layout.residual, isRounded ? 0 : kind));
  }
  return { drafts, exchanges };
}

function exchangeAt(context: LayerContext, op: Exchange, at: number): ExchangePoint {
  return {
    at,
    layer: context.layer.index,
    id: op.id,
    out: context.place(op.out),
    outColumns: op.out.columns,
    in: context.place(op.in),
    inColumns: op.in.columns,
  };
}

// Rows that each attend by themselves: what a row's attention needs is made and appended with it.
const isSingle = ({ rows, isApart = false }: StepShape): boolean => rows === 1 || isApart;
const isMany = (shape: StepShape): boolean => !isSingle(shape);

const kRowsWhen = { single: isSingle, many: isMany, any: always } as const;

interface AttentionHeads {
  readonly step: Heads;
  readonly attention: Attending;
  readonly parts: readonly HeadsPart[]; // of query, key and value
}

// The heads that attention makes by itself for a row that is the only one of its session: those of
// its query, key and value, where nothing else reads the query.
function headsOfAttention(program: Program, fused: readonly Fused[]): AttentionHeads | null {
  for (const [index, step] of fused.entries()) {
    const next = fused[index + 1];
    if (step.kind !== "heads" || next?.kind !== "attention") continue;
    if (next.op !== step.attention) continue;
    const [q, k, v] = (["out", "keys", "values"] as const).map((goesTo) =>
      step.parts.filter((part) => part.goesTo === goesTo),
    ) as [HeadsPart[], HeadsPart[], HeadsPart[]];
    const isLatent = next.op.valueColumns > 0;
    if (q.length !== 1 || k.length !== 1 || v.length !== (isLatent ? 0 : 1)) continue;
    const { out, rope, headColumns } = q[0]!;
    const isReadElsewhere = program.ops.some(
      (op) => op !== next.op && op !== rope && readsOf(op).some((view) => overlap(view, out)),
    );
    if (isReadElsewhere || out.buffer === program.output) continue;
    if (!same(next.op.q, out) || headColumns > fusedColumns(isLatent)) continue;
    return { step, attention: next, parts: [q[0]!, k[0]!, ...v] };
  }
  return null;
}

function copyDraft(context: LayerContext, from: Place, round: number): Draft {
  const { program } = context.layer;
  const { columns } = program.buffers[program.output]!;
  const to = context.layout.residual;
  const fields = { kind: Elementwise.copy, a: from, out: to, roundKind: round };
  return elementwise(context, columns, fields);
}

function draftsOf(context: LayerContext, step: Fused, round: number): Draft[] {
  switch (step.kind) {
    case "product":
      return productDrafts(context, step, round);
    case "heads":
      return [headsDraft(context, step)];
    case "attention":
      return attentionDrafts(context, step, "any");
    case "experts":
      return expertDrafts(context, step, round);
    case "normed":
      return [normDraft(context, step, round)];
    case "single":
      return singleDrafts(context, step.op, round);
  }
}

function singleDrafts(context: LayerContext, op: Op, round: number): Draft[] {
  switch (op.kind) {
    case "embed":
      return embedDrafts(context, op, round);
    case "add": {
      const places = { a: context.place(op.a), b: context.place(op.b), out: context.place(op.out) };
      const fields = { kind: Elementwise.add, ...places, roundKind: round };
      return [elementwise(context, op.out.columns, fields)];
    }
    case "scale": {
      const places = { a: context.place(op.in), out: context.place(op.out) };
      const fields = { kind: Elementwise.scale, ...places, value: op.factor, roundKind: round };
      return [elementwise(context, op.out.columns, fields)];
    }
    case "softcap": {
      const places = { a: context.place(op.in), out: context.place(op.out) };
      const fields = { kind: Elementwise.softcap, ...places, value: op.cap, roundKind: round };
      return [elementwise(context, op.out.columns, fields)];
    }
    case "gatedActivation": {
      const places = { a: context.place(op.gate), b: context.place(op.up) };
      const { activation } = op;
      const out = context.place(op.out);
      const fields = { kind: Elementwise.gated, ...places, out, activation, roundKind: round };
      return [elementwise(context, op.out.columns, fields)];
    }
    case "gate": {
      const places = { a: context.place(op.in), b: context.place(op.gate) };
      const kind = kGates[op.gateKind as 0 | 1 | 2];
      const isOneGate = op.gate.columns === 1;
      const out = context.place(op.out);
      const fields = { kind, ...places, out, isOneGate, roundKind: round };
      return [elementwise(context, op.out.columns, fields)];
    }
    case "causalConv":
    case "deltaRule":
    case "ssmScan":
      return [recurrentDraft(context, op)];
    case "moeRoute":
      return [routeDraft(context, op)];
    default:
      throw new Error(`operation ${op.kind} is never alone`); // fuse.ts
  }
}

// By gateKind.
const kGates = [
  Elementwise.gateIdentity,
  Elementwise.gateSigmoid,
  Elementwise.gateSilu,
] as const;

export function elementwise(
  context: Pick<LayerContext, "rowsAt">,
  columns: number,
  fields: Partial<ElementwiseParams> & Pick<ElementwiseParams, "kind" | "a" | "out">,
): Draft {
  const params = elementwiseOp.bytes({
    rowsAt: context.rowsAt,
    b: fields.a,
    columns,
    value: 0,
    activation: 0,
    isOneGate: false,
    roundKind: 0,
    ...fields,
  });
  const grid: Grid = ({ rows }) => [Math.ceil(columns / 64), rows, 1];
  return { variant: rowKernels.elementwise(), params, bound: {}, grid, when: always };
}

function embedDrafts(context: LayerContext, op: Embed, round: number): Draft[] {
  const matrix = context.layer.tables.get(op)!;
  return matrix.slabs.map((slab) => ({
    variant: rowKernels.embed(matrix.dtype),
    params: embedOp.bytes({
      rowsAt: context.rowsAt,
      out: context.place(op.out),
      columns: matrix.columns,
      blocks: matrix.blocks,
      rowFirst: slab.firstGroup * kGroupRows,
      rowEnd: (slab.firstGroup + slab.groupCount) * kGroupRows,
      zeroBase: slab.zeroBase,
      scale: op.scale,
      chainAt: context.layout.aux.chainAt,
      roundKind: round,
    }),
    bound: slab.scale ? { data: slab.data, scale: slab.scale } : { data: slab.data },
    grid: ({ rows }) => [Math.ceil(matrix.blocks / 64), rows, 1],
    when: always,
  }));
}

function normDraft(context: LayerContext, normed: Normed, round: number): Draft {
  const { op, residual, factor } = normed;
  const bias = op.kind === "layerNorm" && op.bias !== null ? context.vector(op.bias) : kNone;
  const { shape } = context.layer.program.weights[op.weight]!;
  const groups = shape.length === 2 ? shape[0]! : 1;
  return {
    variant: rowKernels.norm(),
    params: normOp.bytes({
      rowsAt: context.rowsAt,
      in: context.place(op.in),
      out: context.place(normed.out),
      columns: op.in.columns / groups,
      weight: context.vector(op.weight),
      bias,
      epsilon: op.epsilon,
      isLayerNorm: op.kind === "layerNorm",
      residual: residual ? context.place(residual) : { base: kNone, stride: 0 },
      factor,
      roundKind: round,
    }),
    bound: { vectors: context.vectors },
    grid: ({ rows }) => [groups, rows, 1],
    when: always,
  };
}

function routeDraft(context: LayerContext, op: Extract<Op, { kind: "moeRoute" }>): Draft {
  const { lanes } = context.arithmetic;
  const isAll = op.routeKind === RouteKind.all;
  const chosen: Grid = ({ rows }) =>
    lanes === "serial" ? [Math.ceil(rows / 64), 1, 1] : [1, rows, 1];
  return {
    variant: isAll ? expertKernels.moeRouteAll() : expertKernels.moeRoute(lanes),
    params: moeRouteOp.bytes({
      rowsAt: context.rowsAt,
      logits: context.place(op.logits),
      out: context.place(op.out),
      experts: op.experts,
      topK: op.topK,
      kind: op.routeKind,
      bias: op.bias === null ? kNone : context.vector(op.bias),
      groups: op.groups,
      topGroups: op.topGroups,
      groupBest: op.groupBest,
      scale: op.scale,
      parts: op.parts,
    }),
    bound: isAll ? {} : { vectors: context.vectors },
    grid: isAll ? ({ rows }) => [Math.ceil(op.experts / 64), rows, 1] : chosen,
    when: always,
  };
}

const kGoesTo = { out: HeadsTo.out, keys: HeadsTo.keys, values: HeadsTo.values } as const;

function headsDraft(
  context: LayerContext,
  { parts, attention, gated }: Heads,
  when: Draft["when"] = always,
): Draft {
  const heads = parts.reduce((sum, part) => sum + part.heads, 0);
  const places = parts.map((part) => headsPart(context, part));
  const kvHeads = attention?.kvHeads ?? 1;
  const { headColumns } = parts[0]!;
  const { vectors } = context;
  return {
    variant: attentionKernels.heads(context.kvIsF32),
    params: headsOp.bytes({
      rowsAt: context.rowsAt,
      headColumns,
      kvHeads,
      valueColumns: attention?.valueColumns ?? 0,
      keyNormFirst: keyNormFirst(parts),
      partCount: places.length,
      gate: gated ? context.place(gated.gate) : { base: kNone, stride: 0 },
      activation: gated?.activation ?? 0,
      parts: places,
    }),
    bound: attention && context.kv ? { vectors, kv: context.kv } : { vectors },
    grid: ({ rows }) => [heads, rows, 1],
    when,
  };
}

// Columns of a key in front of those that a norm of its own is of.
function keyNormFirst(parts: readonly HeadsPart[]): number {
  const key = parts.find(({ norm }) => norm !== null);
  return key?.norm ? key.norm.in.firstColumn - key.input.firstColumn : 0;
}

function headsPart(
  context: LayerContext,
  { rope, input, out, heads, goesTo, norm: latent }: HeadsPart,
): HeadsPartParams {
  const norm = latent?.weight ?? rope?.normWeight ?? null;
  const table = rope?.rope ?? null;
  return {
    in: context.place(input),
    out: context.place(out),
    heads,
    norm: norm === null ? kNone : context.vector(norm),
    ropeFirst: rope && table ? context.ropeColumn(rope) : 0,
    ropePairs: table ? context.layer.program.weights[table.invFreq]!.shape[0]! : 0,
    interleaved: table?.interleaved ?? false,
    ropeScale: table?.scale ?? 1,
    epsilon: latent?.epsilon ?? rope?.epsilon ?? 0,
    goesTo: kGoesTo[goesTo],
  };
}

// Queries that attention of several rows takes at a time: rows times heads, which share their keys
// and values.
function tileOf(op: Attention): { heads: number; rows: number } {
  const sharing = op.heads / op.kvHeads;
  const queries = tileQueriesOf(op.headColumns, op.valueColumns > 0);
  let together = Math.min(sharing, queries);
  while (sharing % together !== 0) --together;
  return { heads: together, rows: Math.floor(queries / together) };
}

// So many workgroups have a head each, so that all of a GPU has work. More have two heads that
// share keys and values, which are read once then.
const kFewWorkgroups = 128;

function isFew({ rows, chunks }: StepShape, heads: number): boolean {
  return heads * rows * chunks <= kFewWorkgroups;
}

// The dispatches for steps of a single row, of many rows, or of any number. Where attention makes
// query, key and value itself, `parts` are theirs.
function attentionDrafts(
  context: LayerContext,
  { op, gate, out }: Attending,
  rows: keyof typeof kRowsWhen,
  parts: readonly HeadsPart[] = [],
): Draft[] {
  const when = kRowsWhen[rows];
  const tile = tileOf(op);
  const params = attentionOp.bytes({
    rowsAt: context.rowsAt,
    q: context.place(op.q),
    out: context.place(out),
    gate: gate ? context.place(gate.gate) : { base: kNone, stride: 0 },
    gateKind: gate ? gateKindOf(gate.gateKind, gate.gate.columns === 1) : 0,
    heads: op.heads,
    kvHeads: op.kvHeads,
    headColumns: op.headColumns,
    valueColumns: op.valueColumns,
    keyNormFirst: keyNormFirst(parts),
    window: op.window,
    scale: op.scale,
    softcap: op.softcap,
    sinks: op.sinks === null ? kNone : context.vector(op.sinks),
    splitBase: context.layout.splitBase,
    tileHeads: tile.heads,
    tileRows: tile.rows,
    parts: parts.map((part) => headsPart(context, part)),
  });
  const bound = { vectors: context.vectors, ...(context.kv ? { kv: context.kv } : {}) };
  const isFused = parts.length > 0;
  const whole: Draft = {
    variant: attentionKernels.attention(context.kvIsF32, false, isFused, op),
    params,
    bound,
    grid: ({ rows }) => [op.heads, rows, 1],
    when: (shape) => !isSplit(shape) && isSingle(shape),
  };
  const tiled: Draft = {
    variant: attentionKernels.attentionRows(
      context.kvIsF32, op.headColumns, op.valueColumns > 0, context.isRoomy),
    params,
    bound,
    grid: (shape) => [op.heads / tile.heads, Math.ceil(shape.rows / tile.rows), 1],
    when: (shape) => !isSplit(shape) && isMany(shape),
  };
  const hasPairs = sharesInPairs(op);
  const splitDrafts = (hasPairs ? [1, 2] : [1]).map((together): Draft => ({
    variant: attentionKernels.attention(context.kvIsF32, true, isFused, op, together === 2),
    params,
    bound,
    grid: ({ rows, chunks }) => [op.heads / together, rows, chunks],
    when: (shape) =>
      when(shape) && isSplit(shape) && (!hasPairs || isFew(shape, op.heads) === (together === 1)),
  }));
  // What would never run is not compiled either.
  return [
    ...(rows === "many" ? [] : [whole]),
    ...(rows === "single" ? [] : [tiled]),
    ...splitDrafts,
    {
      variant: attentionKernels.attentionCombine(),
      params,
      bound,
      grid: ({ rows }) => [op.heads, rows, 1],
      when: (shape) => when(shape) && isSplit(shape),
    },
  ];
}
