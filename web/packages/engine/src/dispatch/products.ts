// Products as dispatches, slab by slab where a matrix is split: a kernel for one row, one for tiles
// of a few rows, which share what is read of the weights, and in integers one for many rows. Those
// of experts: experts.ts.
import { gateKindOf } from "../kernels/common/gate.ts";
import { kNone } from "../kernels/common/op.ts";
import type { Params, Place } from "../kernels/common/op.ts";
import { hasIntegerInputs, hasSuperblocks } from "../kernels/product/fragments.ts";
import { productParams } from "../kernels/product/ops.ts";
import type { HeadParams, ProductParams, Segment } from "../kernels/product/ops.ts";
import {
  groupsOfMatVec,
  matMulFrom,
  matMulTiles,
  preparesOwn,
  productKernels,
  rowTileOf,
  tileRowsOf,
} from "../kernels/product/variants.ts";
import type { MatMulTile, MatVecVariant, ProductVariant } from "../kernels/product/variants.ts";
import { groupsOf, kGroupRows } from "../weights/matrix.ts";
import type { Matrix, Slab } from "../weights/matrix.ts";
import type { Draft } from "./dispatch.ts";
import type { Product } from "./fuse.ts";
import { headRuns, isOneSegment } from "./headRuns.ts";
import type { HeadRun } from "./headRuns.ts";
import { kMaxRows } from "./layout.ts";
import type { LayerContext } from "./layerContext.ts";

// Sums are split into so many parts along the columns: more where a matrix has few rows, so that
// all of a GPU has work. The bits depend on it, so nothing but the matrix decides.
const kParts = 4;
const kManyParts = 8;
const kManyPartsColumns = 2048;
const kManyPartsGroups = 1024;
const kLongColumns = 4096;

// matmul.wgsl is faster than tiles from so many rows on. A workgroup of it takes 32 rows at once
// and walks a long matrix serially: a batch of no more rows leaves most of a large GPU idle, where
// tiles have several times the workgroups (32 conversations on an H200: twice the tokens/s).
export const kMatMulFrom = 33;

export function productDrafts(context: LayerContext, product: Product, round: number): Draft[] {
  const matrix = context.matrixOf(product.matmuls[0]!);
  const { norm } = product;
  const shared = {
    in: context.place(norm ? norm.in : product.matmuls[0]!.in),
    normBase: norm ? context.vector(norm.weight) : kNone,
    epsilon: norm?.epsilon ?? 0,
    activation: product.paired?.activation ?? 0,
    residual: product.residual && context.place(product.residual),
    factor: product.factor,
    residual2: product.residual2 && context.place(product.residual2),
    gate: product.gate && {
      place: context.place(product.gate.gate),
      kind: gateKindOf(product.gate.gateKind, product.gate.gate.columns === 1),
    },
    roundKind: round,
    segments: segmentsOf(context, product),
    experts: null,
  };
  const biased = shared.segments.some(({ bias, biasUp }) => bias !== kNone || biasUp !== kNone);
  if (product.heads) return headDrafts(context, product.heads, matrix, shared);
  const paramsOf = (slab: Slab): Params =>
    productParams({ ...shapeOf(context, matrix, slab), ...shared });
  const slabs = matrix.slabs.map((slab) => ({
    groupCount: slab.groupCount,
    params: paramsOf(slab),
    bound: boundOf(context, slab),
  }));
  const kinds = { withNorm: norm !== null, paired: product.paired !== null, experts: false };
  const { blocks } = matrix;
  return slabDrafts({ ...variantOf(context, matrix, biased), ...kinds, blocks }, slabs);
}

// A slab has whole heads; each of them is a product of its own.
function headDrafts(
  context: LayerContext,
  run: HeadRun,
  matrix: Matrix,
  shared: Omit<ProductParams, keyof ReturnType<typeof shapeOf>>,
): Draft[] {
  const { inStep, outStep } = run;
  const { rows } = run.matmuls[0]!.weight;
  const groups = groupsOf(rows);
  const of = variantOf(context, { ...matrix, groupCount: groups }, false);
  const out = context.place(run.matmuls[0]!.out);
  const behind = ({ base, stride }: Place, columns: number): Place => ({
    base: base + columns,
    stride,
  });
  return matrix.slabs.flatMap((slab) => {
    const first = slab.firstGroup / groups;
    const heads = { count: slab.groupCount / groups, groups, inStep, outStep };
    const own = { out: behind(out, first * outStep), bias: kNone, biasUp: kNone };
    const params = productParams({
      ...shared,
      ...shapeOf(context, matrix, slab),
      rowFirst: 0,
      groupCount: groups,
      in: behind(shared.in, first * inStep),
      segments: [{ first: 0, end: rows, ...own }],
      heads,
    });
    const bound = { groupCount: groups, params, bound: boundOf(context, slab), heads };
    const kinds = { withNorm: false, paired: false, experts: false, byHead: true };
    return slabDrafts({ ...of, ...kinds, blocks: matrix.blocks }, [bound]);
  });
}

// A part of a matrix that is bound at once.
export interface BoundSlab {
  readonly groupCount: number; // of each head
  readonly params: Params;
  readonly bound: Draft["bound"];
  readonly heads?: HeadParams;
}

type SlabVariant = Omit<MatVecVariant, "tileRows" | "row"> & { readonly blocks: number };

// `tiles`: of many rows, in place of those that suit the matrix.
export function slabDrafts(
  of: SlabVariant,
  slabs: readonly BoundSlab[],
  tiles?: readonly MatMulTile[],
): Draft[] {
  const isSerial = of.arithmetic.lanes === "serial";
  if (isSerial && !hasSuperblocks(of)) return slabs.map((slab) => serialDraft(of, slab));
  if (!hasIntegerInputs(of)) {
    return slabs.flatMap((slab) => [rowDraft(of, slab), ...tileDrafts(of, slab, Infinity)]);
  }
  const drafts = slabs.flatMap((slab) =>
    isSerial
      ? [serialDraft(of, slab)]
      : [
          rowDraft(of, slab),
          ...tileDrafts(of, slab, matMulFrom(of, kMatMulFrom)),
          ...matMulDrafts(of, slab, tiles),
        ]);
  const { params, bound, heads } = slabs[0]!;
  const inputs = heads && heads.inStep > 0 ? heads.count : 1; // of a row
  const quantise: Draft = {
    variant: productKernels.quantise(of),
    params,
    bound,
    grid: ({ rows }) => [rows, inputs, 1],
    when: ({ rows }) => rows > 1 || (hasSuperblocks(of) && !preparesOwn({ ...of, tileRows: 1 })),
  };
  return [quantise, ...drafts];
}

// A kernel for tiles of so many rows; `gridOf`: of its workgroups along the matrix and the rows.
function matVecDraft(
  variant: MatVecVariant,
  { groupCount, params, bound, heads }: BoundSlab,
  gridOf: (groups: number, rows: number) => readonly [number, number],
  when: Draft["when"],
): Draft {
  const groups = workgroupsOf(groupCount, groupsOfMatVec(variant));
  const grid: Draft["grid"] = ({ rows }) => [...gridOf(groups, rows), heads?.count ?? 1];
  return { variant: productKernels.matvec(variant), params, bound, grid, when };
}

function rowDraft(of: SlabVariant, slab: BoundSlab): Draft {
  const isOne: Draft["when"] = ({ rows }) => rows === 1;
  const row = rowTileOf({ ...of, tileRows: 1 }, of.blocks, slab.groupCount);
  return matVecDraft({ ...of, tileRows: 1, row }, slab, (groups) => [groups, 1], isOne);
}

// The kernels for 2 rows and more, but less than `end`: as many rows as fill no tile have the next
// larger one.
function tileDrafts(of: SlabVariant, slab: BoundSlab, end: number): Draft[] {
  const sizes = tileRowsOf(of);
  return sizes.map((tileRows, index) => {
    const begin = index === 0 ? 2 : sizes[index - 1]! + 1;
    const last = index + 1 < sizes.length ? tileRows : end - 1;
    return matVecDraft(
      { ...of, tileRows },
      slab,
      (groups, rows) => [Math.ceil(rows / tileRows), groups],
      ({ rows }) => rows >= begin && rows <= last,
    );
  });
}

function matMulDrafts(
  of: SlabVariant,
  { groupCount, params, bound, heads }: BoundSlab,
  chosen?: readonly MatMulTile[],
): Draft[] {
  const allGroups = groupCount * (heads?.count ?? 1);
  const tiles = chosen ?? matMulTiles(of, kMatMulFrom, kMaxRows, allGroups);
  return tiles.map((tile, index) => {
    const end = tiles[index + 1]?.from ?? Infinity;
    const groups = workgroupsOf(groupCount, tile.groups);
    return {
      variant: productKernels.matmul({ ...of, tile }),
      params,
      bound,
      grid: ({ rows }) => [Math.ceil(rows / tile.rows), groups, heads?.count ?? 1],
      when: ({ rows }) => rows >= tile.from && rows < end,
    };
  });
}

// One kernel for one row and for many.
function serialDraft(of: SlabVariant, slab: BoundSlab): Draft {
  const always = (): boolean => true;
  return matVecDraft({ ...of, tileRows: 1 }, slab, (groups, rows) => [groups, rows], always);
}

// How many workgroups the groups of a slab take.
export function workgroupsOf(groups: number, perWorkgroup: number): number {
  return Math.ceil(groups / perWorkgroup);
}

export function variantOf(
  { arithmetic }: LayerContext,
  { dtype, columns, groupCount }: Matrix,
  biased: boolean,
): ProductVariant {
  const parts = partsOf({ dtype, arithmetic }, columns, groupCount);
  return { dtype, arithmetic, parts, biased };
}

export function partsOf(
  of: Pick<ProductVariant, "dtype" | "arithmetic">,
  columns: number,
  groupCount: number,
): number {
  const isNarrow = columns >= kManyPartsColumns && groupCount <= kManyPartsGroups;
  const isLong = columns >= kLongColumns && hasIntegerInputs(of);
  return isNarrow || isLong ? kManyParts : kParts;
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
  let index = 0;
  return headRuns(matmuls).flatMap((run) => {
    const isOne = isOneSegment(run);
    const heads = isOne ? 1 : run.matmuls.length;
    const made: Segment[] = [];
    for (const { weight } of run.matmuls.slice(0, heads)) {
      const rows = isOne ? weight.rows * run.matmuls.length : weight.rows;
      const skip = { headRows: weight.rows, headSkip: run.outStep - weight.rows };
      made.push({
        first,
        end: first + rows,
        out: context.place(outs[index]!),
        bias: biasOf(index),
        biasUp: kNone,
        ...(isOne && run.matmuls.length > 1 ? skip : {}),
      });
      first += groupsOf(rows) * kGroupRows;
      index += isOne ? run.matmuls.length : 1;
    }
    return made;
  });
}
