// What every kernel of products is told: a matrix of groups of 8 rows, which several products of
// the program may share, and what happens with a finished sum.
import { declareOp, kNone, listOf } from "../common/op.ts";
import type { ElementOf, Params, Place } from "../common/op.ts";
import type { SumGrid } from "../../program/views.ts";

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
    headRows: "u32", // rows of one of several heads, each of whose outputs lie together; or kNone
    headSkip: "u32", // columns between the outputs of a head and of the next
  },
  4,
);
type SegmentFields = ElementOf<typeof segments>;
type OfHeads = "headRows" | "headSkip";
export type Segment = Omit<SegmentFields, OfHeads> & Partial<Pick<SegmentFields, OfHeads>>;

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
  factor: "f32", // of the sum with it
  residual2: "place", // added at last; base kNone: nothing is
  gate: "place", // base kNone: none
  gateKind: "u32", // gateKindOf
  roundKind: "u32", // Rounding
  segmentCount: "u32",
  topK: "u32", // experts only, as the next ones
  route: "place",
  expertGroups: "u32", // from the groups of one expert, or head, to the next one's
  expertBias: "u32", // bias values of one expert
  planesBase: "u32", // in `planes` (blocks_planes.wgsl)
  headIn: "u32", // kByHead: columns from the input of a head to that of the next; 0: all share it
  headOut: "u32", // of outputs
  planeHeads: "u32", // inputs of a row that are prepared each by itself
  orderBase: "u32", // in `planes`: rows of experts in tiles (moe_order.wgsl)
  grid: "u32", // of experts' outputs: gridBits
  segments,
});

export interface ExpertParams {
  readonly topK: number;
  readonly route: Place;
  readonly groups: number;
  readonly bias: number;
  readonly grid?: SumGrid; // of outputs, where there is one
}

// Of a product by heads (dispatch/headRuns.ts): each has groups of its own of the matrix.
export interface HeadParams {
  readonly count: number;
  readonly groups: number;
  readonly inStep: number;
  readonly outStep: number;
}

type Values = Parameters<typeof productOp.bytes>[0];
type Made =
  | ("topK" | "route" | "expertGroups" | "expertBias")
  | "grid"
  | ("headIn" | "headOut" | "planeHeads")
  | ("gate" | "gateKind")
  | ("segments" | "segmentCount" | "residual" | "factor" | "residual2");

export interface ProductParams extends Omit<Values, Made | "orderBase"> {
  readonly orderBase?: number;
  readonly residual: Place | null;
  readonly factor?: number;
  readonly residual2: Place | null;
  readonly gate?: { readonly place: Place; readonly kind: number } | null;
  readonly segments: readonly Segment[];
  readonly experts: ExpertParams | null;
  readonly heads?: HeadParams | null;
}

const kNoPlace: Place = { base: kNone, stride: 0 };
const kNoGrid: SumGrid = { step: 0, limit: 0 };
const kNoExperts: ExpertParams = { topK: 1, route: { base: 0, stride: 0 }, groups: 0, bias: 0 };

// The step's exponent bits of an f32, whose fraction is 0, with the limit in the fraction's place.
// Example: steps of 0.5 (0x3f000000), at most 12, are 0x3f00000c.
function gridBits({ step, limit }: SumGrid): number {
  const exponent = new Uint32Array(Float32Array.of(step).buffer)[0]!;
  return exponent + limit;
}

export function productParams(params: ProductParams): Params {
  const { residual, factor = 1, residual2, gate, experts, heads, orderBase = 0, ...rest } = params;
  const { topK, route, groups, bias, grid = kNoGrid } = experts ?? kNoExperts;
  const { inStep = 0, outStep = 0, count = 1 } = heads ?? {};
  return productOp.bytes({
    ...rest,
    residual: residual ?? kNoPlace,
    factor,
    residual2: residual2 ?? kNoPlace,
    gate: gate?.place ?? kNoPlace,
    gateKind: gate?.kind ?? 0,
    segments: rest.segments.map((segment) => ({ headRows: kNone, headSkip: 0, ...segment })),
    segmentCount: rest.segments.length,
    topK,
    route,
    expertGroups: heads?.groups ?? groups,
    expertBias: bias,
    headIn: inStep,
    headOut: outStep,
    planeHeads: inStep === 0 ? 1 : count,
    orderBase,
    grid: gridBits(grid),
  });
}
