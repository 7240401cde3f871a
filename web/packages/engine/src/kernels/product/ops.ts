// What every kernel of products is told: a matrix of groups of 8 rows, which several products of
// the program may share, and what happens with a finished sum.
import { declareOp, kNone, listOf } from "../common/op.ts";
import type { ElementOf, Params, Place } from "../common/op.ts";

// The outputs of one of the program's products. A fused matrix has rows in groups of 8; in a paired
// one groups alternate: gate rows, up rows.
const segments = listOf(
  "Segment",
  {
    first: "u32", // row of the fused matrix
    end: "u32",
    out: "place",
    bias: "u32", // in `vectors`, or kNone; paired: of the gate rows
    biasUp: "u32",
  },
  4,
);
export type Segment = ElementOf<typeof segments>;

export const productOp = declareOp({
  rowsAt: "u32",
  in: "place",
  columns: "u32",
  blocks: "u32", // in a row of the matrix
  groupCount: "u32", // of this slab
  rowFirst: "u32", // the slab's first row in the fused matrix
  zeroBase: "u32", // in `wscale`, or kNone
  normBase: "u32", // in `vectors`
  epsilon: "f32",
  activation: "u32", // of program/ir.ts
  residual: "place", // base kNone: nothing is added
  roundKind: "u32", // Rounding
  segmentCount: "u32",
  topK: "u32", // experts only, as what follows
  route: "place",
  expertGroups: "u32", // from one expert's groups to the next one's
  expertBias: "u32", // bias values of one expert
  planesBase: "u32", // in `planes` (blocks_planes.wgsl)
  segments,
});

export interface ExpertParams {
  readonly topK: number;
  readonly route: Place;
  readonly groups: number;
  readonly bias: number;
}

type Values = Parameters<typeof productOp.bytes>[0];
type OfExperts = "topK" | "route" | "expertGroups" | "expertBias";

export interface ProductParams extends Omit<Values, OfExperts | "segmentCount" | "residual"> {
  readonly residual: Place | null;
  readonly experts: ExpertParams | null;
}

const kNoPlace: Place = { base: kNone, stride: 0 };
const kNoExperts: ExpertParams = { topK: 1, route: { base: 0, stride: 0 }, groups: 0, bias: 0 };

export function productParams({ residual, experts, ...rest }: ProductParams): Params {
  const { topK, route, groups, bias } = experts ?? kNoExperts;
  return productOp.bytes({
    ...rest,
    residual: residual ?? kNoPlace,
    segmentCount: rest.segments.length,
    topK,
    route,
    expertGroups: groups,
    expertBias: bias,
  });
}
