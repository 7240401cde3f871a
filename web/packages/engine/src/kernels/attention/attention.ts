// The kernels of attention, and of what is done with heads before it.
import { Activation, GateKind } from "../../program/ir.ts";
import { named } from "../common/numbers.ts";
import { declareOp, listOf } from "../common/op.ts";
import type { ElementOf } from "../common/op.ts";
import { reduceOf } from "../common/reduce.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import activation from "../common/fragments/activation.wgsl?raw";
import gate from "../common/fragments/gate.wgsl?raw";
import common from "../common/fragments/common.wgsl?raw";
import actF32 from "../common/fragments/act_f32.wgsl?raw";
import attention from "./attention.wgsl?raw";
import attentionCombine from "./attention_combine.wgsl?raw";
import attentionSessions from "./attention_sessions.wgsl?raw";
import qkNormRope from "./qk_norm_rope.wgsl?raw";
import attentionMerge from "./fragments/attention_merge.wgsl?raw";
import attentionRows from "./fragments/attention_rows.wgsl?raw";
import attentionTiles from "./fragments/attention_tiles.wgsl?raw";
import head from "./fragments/head.wgsl?raw";
import headsOne from "./fragments/heads_one.wgsl?raw";
import headsTwo from "./fragments/heads_two.wgsl?raw";
import kvF16 from "./fragments/kv_f16.wgsl?raw";
import kvF32 from "./fragments/kv_f32.wgsl?raw";
import kvPages from "./fragments/kv_pages.wgsl?raw";
import kvTilesF16 from "./fragments/kv_tiles_f16.wgsl?raw";
import kvTilesF32 from "./fragments/kv_tiles_f32.wgsl?raw";

// Where the heads of one part go.
export const HeadsTo = { out: 0, keys: 1, values: 2 } as const;

// The heads of one view: normalised and rotated, or as they are.
const parts = listOf(
  "Part",
  {
    in: "place",
    out: "place",
    heads: "u32",
    norm: "u32", // in `vectors`, or kNone
    ropeFirst: "u32", // column in the step's table
    ropePairs: "u32", // pairs that are rotated
    interleaved: "bool",
    ropeScale: "f32",
    epsilon: "f32",
    goesTo: "u32", // HeadsTo
  },
  3,
);
export type HeadsPartParams = ElementOf<typeof parts>;

export const headsOp = declareOp({
  rowsAt: "u32",
  headColumns: "u32",
  kvHeads: "u32",
  valueColumns: "u32", // 0: values apart from keys
  keyNormFirst: "u32", // columns of a key in front of those that its norm is of
  partCount: "u32",
  gate: "place", // of the only part's heads, which it goes through; base kNone: none
  activation: "u32",
  parts,
});

export const attentionOp = declareOp({
  rowsAt: "u32",
  q: "place",
  out: "place",
  gate: "place", // that the result goes through; base kNone: none
  gateKind: "u32", // gateKindOf
  heads: "u32",
  kvHeads: "u32",
  headColumns: "u32",
  valueColumns: "u32", // 0: values apart from keys; else keys end with them
  keyNormFirst: "u32", // as in headsOp
  window: "u32", // positions that a query sees, its own among them; 0: all
  scale: "f32",
  softcap: "f32", // 0: none
  sinks: "u32", // in `vectors`, or kNone
  splitBase: "u32", // in `act`: partial results of chunks
  tileHeads: "u32", // attention_sessions.wgsl: queries of a workgroup are rows times heads
  tileRows: "u32",
  parts, // kFused: of the query, the key and the value, if that is not in the key
});

// Queries that `attentionRows` makes at a time: heads of usual widths have a kernel for more.
export function tileQueriesOf(columns: number, valuesInKeys: boolean): number {
  return isTiledHead(columns, valuesInKeys) ? 16 : 4;
}

function isTiledHead(columns: number, valuesInKeys: boolean): boolean {
  return columns % 8 === 0 && columns <= 128 && !valuesInKeys;
}

// Those of tanh_of and sigmoid, which stand beside activations, of gates and of heads.
const kNumbers = [
  named("Activation", Activation),
  named("Gate", GateKind),
  named("HeadsTo", HeadsTo),
].join("");

// Heads whose values are in workgroup memory at a time, and the most columns of each: of query, key
// and value, or of a query and a latent key, which ends with the value.
const kSpans = {
  one: { kHeads: 1, kHeadSpan: 1024 },
  latent: { kHeads: 2, kHeadSpan: 576 },
  three: { kHeads: 3, kHeadSpan: 341 },
} as const;

// The most columns of heads that `attention` makes by itself.
export function fusedColumns(valuesInKeys: boolean): number {
  return kSpans[valuesInKeys ? "latent" : "three"].kHeadSpan - (valuesInKeys ? 0 : 1);
}

// The tile of attention_tiles.wgsl: queries of a thread, loads that it has on their way at a time,
// positions of a round, and the queries that are merged at a time. With room in workgroup memory
// fewer barriers do.
function tileConstants(pairs: number, isRoomy: boolean): Record<string, number> {
  const mergeQueries = isRoomy ? 4 : 2; // of at most 64 pairs each, for 256 threads
  return {
    kPairs: pairs,
    kThreadQueries: 4,
    kUnroll: 4,
    kRoundKeys: isRoomy ? 128 : 64,
    kMergeQueries: mergeQueries,
    kMergeRounds: 16 / mergeQueries,
  };
}

const kPairedColumns = 128; // keys of 256 in f32 do not fit into 16 KiB of workgroup memory

// Whether `attention` can take two heads at a time that share keys and values.
export function sharesInPairs({ headColumns, valueColumns, heads, kvHeads }: HeadShape): boolean {
  const isEven = headColumns % 2 === 0 && (heads / kvHeads) % 2 === 0;
  return isEven && valueColumns === 0 && headColumns <= kPairedColumns;
}

// What `attention` is compiled for.
export interface HeadShape {
  readonly headColumns: number;
  readonly valueColumns: number; // 0: values apart from keys, as wide
  readonly heads: number;
  readonly kvHeads: number;
}

// Loads that a thread of `attention` has on their way at a time: the first one that divides the
// pairs of a key. More and fewer took longer on a large GPU (docs/performance.md).
const kBatches = [16, 8, 4, 2, 1];

function pages(kvIsF32: boolean): string[] {
  return [kvPages, kvIsF32 ? kvF32 : kvF16];
}

export const attentionKernels = {
  heads(kvIsF32: boolean): Variant {
    return variant({
      name: kvIsF32 ? "heads kv f32" : "heads kv f16",
      op: headsOp,
      numbers: kNumbers,
      constants: kSpans.one,
      parts: [common, actF32, activation, ...pages(kvIsF32), head, qkNormRope],
    });
  },

  // A single row; isFused adds what `heads` does. inPairs: of two heads at a time (sharesInPairs).
  attention(
    kvIsF32: boolean,
    isSplit: boolean,
    isFused: boolean,
    shape: HeadShape,
    inPairs = false,
  ): Variant {
    const { headColumns, valueColumns, heads, kvHeads } = shape;
    const ofOne = isFused && valueColumns > 0 ? kSpans.latent : kSpans.three;
    const span = inPairs ? { kHeads: 4, kHeadSpan: headColumns } : ofOne;
    const keyPairs = Math.ceil(headColumns / 2);
    const batch = kBatches.find((each) => keyPairs % each === 0)!;
    const valuePairs = valueColumns > 0 ? Math.ceil(valueColumns / 2) : keyPairs;
    const shared = [common, actF32, activation, gate, head, attentionMerge];
    const perHead = inPairs
      ? [reduceOf("vec2<f32>"), headsTwo]
      : [reduceOf("f32"), headsOne];
    return variant({
      name: `attention kv ${kvIsF32 ? "f32" : "f16"}`,
      op: attentionOp,
      numbers: kNumbers,
      constants: {
        kSplit: isSplit,
        kFused: isFused,
        ...span,
        kTogether: inPairs ? 2 : 1,
        kSharing: heads / kvHeads,
        kValuePairs: valuePairs,
        kValueStep: valueColumns > 0 ? 1 : valuePairs, // words between neighbouring positions
        kBatch: batch,
        kBatchPages: Math.ceil((batch * Math.floor(256 / valuePairs)) / 32),
      },
      parts: [...shared, ...perHead, ...pages(kvIsF32), attention],
    });
  },

  // Several rows; `columns`: of a head; isRoomy: the device has 32 KiB of workgroup memory.
  attentionRows(
    kvIsF32: boolean,
    columns: number,
    valuesInKeys: boolean,
    isRoomy: boolean,
  ): Variant {
    const shared = [common, actF32, activation, gate, head, attentionMerge, attentionSessions];
    const name = `attention of rows kv ${kvIsF32 ? "f32" : "f16"}`;
    if (isTiledHead(columns, valuesInKeys)) {
      return variant({
        name: `${name} in tiles`,
        op: attentionOp,
        numbers: kNumbers,
        constants: { ...kSpans.three, ...tileConstants(columns / 2, isRoomy) },
        parts: [...shared, kvIsF32 ? kvTilesF32 : kvTilesF16, attentionTiles],
      });
    }
    return variant({
      name,
      op: attentionOp,
      numbers: kNumbers,
      constants: {
        ...kSpans.three,
        kQueries: tileQueriesOf(columns, valuesInKeys),
        kMaxPairs: Math.ceil(columns / 2),
      },
      parts: [...shared, ...pages(kvIsF32), attentionRows],
    });
  },

  attentionCombine: (): Variant =>
    variant({
      name: "attention_combine",
      op: attentionOp,
      numbers: kNumbers,
      constants: kSpans.three,
      parts: [common, actF32, activation, gate, head, attentionMerge, attentionCombine],
    }),
} as const;
