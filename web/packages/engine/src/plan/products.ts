// Products as dispatches, slab by slab where a matrix is split. One kernel for one row and for
// many: a tile of rows shares what is read of the weights. Those of experts: experts.ts.
import type { Arithmetic } from "../kernels/arithmetic.ts";
import { kNone, productParams } from "../kernels/params.ts";
import type { Params, ProductParams, Segment } from "../kernels/params.ts";
import { groupsOfMatVec, hasIntegerInputs, kernels } from "../kernels/sources.ts";
import type { MatVecVariant, ProductVariant } from "../kernels/sources.ts";
import type { View } from "../program/ir.ts";
import { groupsOf, kGroupRows } from "../weights/matrix.ts";
import type { Matrix, Slab } from "../weights/matrix.ts";
import type { Draft } from "./dispatch.ts";
import type { Product } from "./fuse.ts";
import type { LayerContext } from "./layerContext.ts";

// Sums are split into so many parts along the columns: more where a matrix has few rows, so that
// all of a GPU has work. The bits depend on it, so nothing but the matrix decides.
const kParts = 4;
const kManyParts = 8;
const kManyPartsColumns = 2048;
const kManyPartsGroups = 1024;
const kWideGroups = 2048;
const kMostOutputs = 32;

export function productDrafts(context: LayerContext, product: Product, round: number): Draft[] {
  const matrix = context.matrixOf(product.matmuls[0]!);
  const { norm } = product;
  const shared = {
    input: context.place(norm ? norm.in : product.matmuls[0]!.in),
    normBase: norm ? context.vector(norm.weight) : kNone,
    epsilon: norm?.epsilon ?? 0,
    activation: product.paired?.activation ?? 0,
    residual: product.residual ? context.place(product.residual) : null,
    round,
    segments: segmentsOf(context, product),
    experts: null,
  };
  const biased = shared.segments.some(({ bias, biasUp }) => bias !== kNone || biasUp !== kNone);
  const of = { ...variantOf(context, matrix, biased), withNorm: norm !== null };
  const paramsOf = (slab: Slab): Params =>
    productParams({ ...shapeOf(context, matrix, slab), ...shared });
  const slabs = matrix.slabs.map((slab) => ({
    groupCount: slab.groupCount,
    params: paramsOf(slab),
    bound: boundOf(context, slab),
  }));
  return slabDrafts({ ...of, paired: product.paired !== null, experts: false }, slabs);
}

// A part of a matrix that is bound at once.
export interface BoundSlab {
  readonly groupCount: number;
  readonly params: Params;
  readonly bound: Draft["bound"];
}

type SlabVariant = Omit<MatVecVariant, "tileRows">;

export function slabDrafts(of: SlabVariant, slabs: readonly BoundSlab[]): Draft[] {
  if (of.arithmetic.lanes === "serial") return slabs.map((slab) => serialDraft(of, slab));
  const drafts = slabs.flatMap(({ groupCount, params, bound }) =>
    [1, of.arithmetic.tileRows].map((tileRows): Draft => {
      const variant = { ...of, tileRows, arithmetic: widened(of.arithmetic, groupCount) };
      const groups = workgroupsOf(groupCount, groupsOfMatVec(variant));
      const tiles = (rows: number): number => Math.ceil(rows / tileRows);
      return {
        variant: kernels.matvec(variant),
        params,
        bound,
        grid: ({ rows }) => (tileRows === 1 ? [groups, 1, 1] : [tiles(rows), groups, 1]),
        when: ({ rows }) => (tileRows === 1) === (rows === 1),
      };
    }),
  );
  if (!hasIntegerInputs(of)) return drafts;
  const { params, bound } = slabs[0]!;
  const quantise: Draft = {
    variant: kernels.quantise(of),
    params,
    bound,
    grid: ({ rows }) => [rows, 1, 1],
    when: ({ rows }) => rows > 1,
  };
  return [quantise, ...drafts];
}

// Where a GPU has work enough with half of the workgroups, each makes twice the outputs of inputs
// that it has prepared.
function widened(arithmetic: Arithmetic, groupCount: number): Arithmetic {
  if (groupCount < kWideGroups) return arithmetic;
  return { ...arithmetic, outputs: Math.min(kMostOutputs, 2 * arithmetic.outputs) };
}

// One kernel for one row and for many.
function serialDraft(of: SlabVariant, { groupCount, params, bound }: BoundSlab): Draft {
  const variant = { ...of, tileRows: 1 };
  const groups = workgroupsOf(groupCount, groupsOfMatVec(variant));
  return {
    variant: kernels.matvec(variant),
    params,
    bound,
    grid: ({ rows }) => [groups, rows, 1],
    when: () => true,
  };
}

// Of the groups of a slab.
export function workgroupsOf(groups: number, perWorkgroup: number): number {
  return Math.ceil(groups / perWorkgroup);
}

export function variantOf(
  { arithmetic }: LayerContext,
  { dtype, columns, groupCount }: Matrix,
  biased: boolean,
): ProductVariant {
  return { dtype, arithmetic, parts: partsOf(columns, groupCount), biased };
}

export function partsOf(columns: number, groupCount: number): number {
  const isNarrow = columns >= kManyPartsColumns && groupCount <= kManyPartsGroups;
  return isNarrow ? kManyParts : kParts;
}

export function shapeOf(
  context: LayerContext,
  matrix: Matrix,
  slab: Slab,
): Pick<
  ProductParams,
  | "rowsAt"
  | "columns"
  | "blocks"
  | "groupCount"
  | "rowFirst"
  | "zeroBase"
  | "planesBase"
> {
  return {
    rowsAt: context.rowsAt,
    columns: matrix.columns,
    blocks: matrix.blocks,
    groupCount: slab.groupCount,
    rowFirst: slab.firstGroup * kGroupRows,
    zeroBase: slab.zeroBase,
    planesBase: context.layout.aux.planesAt / 4,
  };
}

export function boundOf(context: LayerContext, slab: Slab): Draft["bound"] {
  const { vectors } = context;
  return slab.scale
    ? { vectors, data: slab.data, scale: slab.scale }
    : { vectors, data: slab.data };
}

function segmentsOf(context: LayerContext, { matmuls, paired, outs }: Product): Segment[] {
  const biasOf = (index: number): number => {
    const bias = matmuls[index]!.bias;
    return bias === null ? kNone : context.vector(bias);
  };
  if (paired) {
    const out = context.place(outs[0]!);
    return [{ first: 0, end: outs[0]!.columns, out, bias: biasOf(0), biasUp: biasOf(1) }];
  }
  let first = 0;
  return outs.map((view: View, index) => {
    const segment: Segment = {
      first,
      end: first + view.columns,
      out: context.place(view),
      bias: biasOf(index),
      biasUp: kNone,
    };
    first += groupsOf(view.columns) * kGroupRows;
    return segment;
  });
}
