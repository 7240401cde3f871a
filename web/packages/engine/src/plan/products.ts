// Products as dispatches: the row-by-row kernel for few rows, norm and tiled kernel for many, slab
// by slab where a matrix is split. Those of experts: experts.ts.
import { kNone, normParams, productParams, RowsAt } from "../kernels/params.ts";
import type { ProductParams, Segment } from "../kernels/params.ts";
import { kernels } from "../kernels/sources.ts";
import type { View } from "../program/ir.ts";
import { groupsOf, kGroupRows } from "../weights/matrix.ts";
import type { Matrix, Slab } from "../weights/matrix.ts";
import { isFew } from "./dispatch.ts";
import type { Draft } from "./dispatch.ts";
import type { Product } from "./fuse.ts";
import type { LayerContext } from "./layerContext.ts";

// Rows that the row-by-row kernel takes together: their input must fit workgroup memory.
const kTileRows = 2;
const kManyTileRows = 32;
const kManyGroups = 8;

export function productDrafts(context: LayerContext, product: Product, round: number): Draft[] {
  const matrix = context.matrixOf(product.matmuls[0]!);
  const segments = segmentsOf(context, product);
  const drafts: Draft[] = [];
  const { norm } = product;
  const input = context.place(product.matmuls[0]!.in);
  if (norm) drafts.push(normDraft(context, product));
  for (const slab of matrix.slabs) {
    const base = {
      ...shapeOf(context, matrix, slab),
      activation: product.paired?.activation ?? 0,
      residual: product.residual ? context.place(product.residual) : null,
      round,
      segments,
      experts: null,
    };
    const raw = norm ? context.place(norm.in) : input;
    const normBase = norm ? context.vector(norm.weight) : kNone;
    const few = { ...base, input: raw, normBase, epsilon: norm?.epsilon ?? 0 };
    drafts.push(...fewDrafts(context, matrix, slab, product, few));
    if (context.rowsAt === RowsAt.head) continue; // never more than few rows
    const many = { ...base, input, normBase: kNone, epsilon: 0 };
    drafts.push({
      variant: kernels.matmul(matrix.dtype, product.paired !== null),
      params: productParams(many),
      bound: boundOf(context, slab),
      grid: ({ rows }) => [
        Math.ceil(slab.groupCount / kManyGroups),
        Math.ceil(rows / kManyTileRows),
        1,
      ],
      when: (shape) => !isFew(shape),
    });
  }
  return drafts;
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

// Groups of a workgroup: more share what is read of the input, fewer keep more of the GPU busy.
// With two rows more do not fit the 16 KiB of workgroup memory that every device has.
function groupsTogether({ groupCount }: Slab, tileRows: number): number {
  return groupCount >= 1024 && tileRows === 1 ? 4 : 2;
}

// One row and up to eight rows: two variants of one kernel.
function fewDrafts(
  context: LayerContext,
  matrix: Matrix,
  slab: Slab,
  product: Product,
  params: ProductParams,
): Draft[] {
  return [1, kTileRows].map((tileRows) => ({
    variant: kernels.matvec({
      dtype: matrix.dtype,
      tileRows,
      groups: groupsTogether(slab, tileRows),
      withNorm: product.norm !== null,
      paired: product.paired !== null,
      experts: false,
    }),
    params: productParams(params),
    bound: boundOf(context, slab),
    grid: ({ rows }) => [
      Math.ceil(slab.groupCount / groupsTogether(slab, tileRows)),
      Math.ceil(rows / tileRows),
      1,
    ],
    when: (shape) => (tileRows === 1 ? shape.rows === 1 : isFew(shape) && shape.rows > 1),
  }));
}

function normDraft(context: LayerContext, { norm }: Product): Draft {
  return {
    variant: kernels.norm(),
    params: normParams({
      rowsAt: context.rowsAt,
      input: context.place(norm!.in),
      out: context.place(norm!.out),
      columns: norm!.in.columns,
      weight: context.vector(norm!.weight),
      bias: kNone,
      epsilon: norm!.epsilon,
      isLayerNorm: false,
    }),
    bound: { vectors: context.vectors },
    grid: ({ rows }) => [1, rows, 1],
    when: (shape) => !isFew(shape),
  };
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
