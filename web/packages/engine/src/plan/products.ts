// Products as dispatches, slab by slab where a matrix is split. One kernel for one row and for
// many: a tile of rows shares what is read of the weights. Those of experts: experts.ts.
import { kNone, productParams } from "../kernels/params.ts";
import type { Params, ProductParams, Segment } from "../kernels/params.ts";
import { hasIntegerInputs, kernels } from "../kernels/sources.ts";
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
  const biased = shared.segments.some(({ bias, biasUp }) => bias !== kNone || biasUp !== kNone);
  const of = { ...variantOf(context, matrix, biased), withNorm: norm !== null };
  const paramsOf = (slab: Slab): Params =>
    productParams({ ...shapeOf(context, matrix, slab), ...shared });
  const drafts = matrix.slabs.flatMap((slab) =>
    [1, kTileRows].map((tileRows): Draft => {
      const groups = workgroupsOf(slab.groupCount);
      const tiles = (rows: number): number => Math.ceil(rows / tileRows);
      return {
        variant: kernels.matvec({
          ...of,
          tileRows,
          paired: product.paired !== null,
          experts: false,
        }),
        params: paramsOf(slab),
        bound: boundOf(context, slab),
        grid: ({ rows }) => (tileRows === 1 ? [groups, 1, 1] : [tiles(rows), groups, 1]),
        when: ({ rows }) => (tileRows === 1) === (rows === 1),
      };
    }),
  );
  if (!hasIntegerInputs(of)) return drafts;
  const quantise: Draft = {
    variant: kernels.quantise(of),
    params: paramsOf(matrix.slabs[0]!),
    bound: { vectors: context.vectors },
    grid: ({ rows }) => [rows, 1, 1],
    when: ({ rows }) => rows > 1,
  };
  return [quantise, ...drafts];
}

// Of the groups of a slab.
export function workgroupsOf(groups: number): number {
  return Math.ceil((groups * kGroupRows) / kWorkgroupRows);
}

export function variantOf(
  { arithmetic }: LayerContext,
  { dtype, columns, groupCount }: Matrix,
  biased: boolean,
): ProductVariant {
  const isNarrow = columns >= kManyPartsColumns && groupCount <= kManyPartsGroups;
  return { dtype, arithmetic, parts: isNarrow ? kManyParts : kParts, biased };
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
