// Products as dispatches, slab by slab where a matrix is split. One kernel for one row and for
// many: a tile of rows shares what is read of the weights. Those of experts: experts.ts.
import { kNone, productParams } from "../kernels/params.ts";
import type { ProductParams, Segment } from "../kernels/params.ts";
import { kernels } from "../kernels/sources.ts";
import type { ProductVariant } from "../kernels/sources.ts";
import type { View } from "../program/ir.ts";
import { groupsOf, kGroupRows } from "../weights/matrix.ts";
import type { Matrix, Slab } from "../weights/matrix.ts";
import type { Draft } from "./dispatch.ts";
import type { Product } from "./fuse.ts";
import type { LayerContext } from "./layerContext.ts";

const kTileRows = 4;
const kWorkgroupRows = 2 * kGroupRows;
// Sums are split into so many parts along the columns: more where a matrix has few rows, so that
// all of a GPU has work. The bits depend on it, so nothing but the matrix decides.
const kParts = 4;
const kManyParts = 8;
const kManyPartsColumns = 2048;
const kManyPartsGroups = 1024;

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
  return matrix.slabs.flatMap((slab) => {
    const params = productParams({ ...shapeOf(context, matrix, slab), ...shared });
    return [1, kTileRows].map((tileRows) => ({
      variant: kernels.matvec({
        ...variantOf(context, matrix),
        tileRows,
        withNorm: norm !== null,
        paired: product.paired !== null,
        experts: false,
      }),
      params,
      bound: boundOf(context, slab),
      grid: ({ rows }) => [workgroupsOf(slab.groupCount), Math.ceil(rows / tileRows), 1],
      when: ({ rows }) => (tileRows === 1) === (rows === 1),
    }));
  });
}

// Of the groups of a slab.
export function workgroupsOf(groups: number): number {
  return Math.ceil((groups * kGroupRows) / kWorkgroupRows);
}

export function variantOf(context: LayerContext, matrix: Matrix): ProductVariant {
  const { arithmetic } = context;
  const isNarrow =
    matrix.columns >= kManyPartsColumns && matrix.groupCount <= kManyPartsGroups;
  return { dtype: matrix.dtype, arithmetic, parts: isNarrow ? kManyParts : kParts };
}

export function shapeOf(
  context: LayerContext,
  matrix: Matrix,
  slab: Slab,
): Pick<
  ProductParams,
  "rowsAt" | "columns" | "blocks" | "groupCount" | "rowFirst" | "zeroBase"
> {
  return {
    rowsAt: context.rowsAt,
    columns: matrix.columns,
    blocks: matrix.blocks,
    groupCount: slab.groupCount,
    rowFirst: slab.firstGroup * kGroupRows,
    zeroBase: slab.zeroBase,
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
