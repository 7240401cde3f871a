// Experts as dispatches: gate, up and activation of every (row, expert of its route), then down and
// the sum. Where the experts of a layer do not fit one binding they come in blocks, one after the
// other: a filter writes the part of each route that names experts of the block (the others get
// weight 0), and every block adds to what the blocks before it left.
//
// Steps of few rows have a kernel for every pair of row and expert, which reads the expert's whole
// matrix. Steps of many read it once for a tile of its rows (moe_order.wgsl, gatheredTiles):
//
//   few     gate and up of each pair | down and the sum of a row's pairs
//   many    order | gate and up of each tile | down of each tile | the sum of a row's pairs
import { kNone } from "../kernels/common/op.ts";
import type { Place } from "../kernels/common/op.ts";
import {
  expertKernels,
  kMostOrderedExperts,
  mostTiles,
  moeOrderOp,
  moePartOp,
} from "../kernels/experts/experts.ts";
import { hasSuperblocks } from "../kernels/product/fragments.ts";
import { productParams } from "../kernels/product/ops.ts";
import type { ExpertParams, ProductParams, Segment } from "../kernels/product/ops.ts";
import {
  gatheredTiles,
  groupsOfMatVec,
  groupsOfMoeDown,
  productKernels,
} from "../kernels/product/variants.ts";
import type { MatMulTile, MatMulVariant, ProductVariant } from "../kernels/product/variants.ts";
import type { MoeExperts, View } from "../program/ir.ts";
import { groupsOf, kGroupRows } from "../weights/matrix.ts";
import type { Matrix, Slab } from "../weights/matrix.ts";
import type { Draft } from "./dispatch.ts";
import { expertColumns, padded, rowsOfLayer } from "./layout.ts";
import type { Experts } from "./fuse.ts";
import type { LayerContext } from "./layerContext.ts";
import type { ExpertBlock } from "./loadedLayer.ts";
import { boundOf, shapeOf, variantOf, workgroupsOf } from "./products.ts";
import type { BoundSlab } from "./products.ts";

const kCombineColumns = 64; // of a workgroup of moe_combine.wgsl
const kNoNorm = { normBase: kNone, epsilon: 0 } as const;

// What the dispatches of one block share.
interface Block {
  readonly step: Experts;
  readonly op: MoeExperts;
  readonly block: ExpertBlock;
  readonly route: Place;
  readonly hidden: Place; // [rows * topK, width]
  readonly totals: Place; // [rows * topK, columns], of steps of many rows
  readonly width: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
  readonly round: number; // of the last block
}

export function expertDrafts(context: LayerContext, step: Experts, round: number): Draft[] {
  const { op } = step;
  const blocks = context.expertBlocks(op);
  const width = blocks[0]!.down.columns;
  const { expertBase } = context.layout;
  const hidden: Place = { base: expertBase, stride: padded(width) };
  const rows = rowsOfLayer(context.layer.program, context.layout);
  const columns = expertColumns(op, context.layer.program);
  const totalsBase = expertBase + rows * columns.hidden;
  const totals: Place = { base: totalsBase, stride: padded(op.out.columns) };
  const isWhole = blocks.length === 1 && isInOneSlab(blocks[0]!);
  const route = isWhole
    ? context.place(op.route)
    : { base: totalsBase + rows * columns.totals, stride: columns.route };
  return blocks.flatMap((block, index) => {
    const isLast = index + 1 === blocks.length;
    const isFirst = index === 0;
    const shared = { step, op, block, route, hidden, totals, width, isFirst, isLast };
    const own: Block = { ...shared, round: isLast ? round : 0 };
    return [
      ...(isWhole ? [] : [filterDraft(context, own)]),
      ...upDrafts(context, own),
      ...downDrafts(context, own),
    ];
  });
}

// Of the two halves of experts: gate and up, and down.
interface Half {
  readonly of: ProductVariant;
  readonly tiles: readonly MatMulTile[]; // none: pairs are never gathered
  readonly inputsOfRow: number;
}

function upHalf(context: LayerContext, { op, block: { gateUp, expertCount } }: Block): Half {
  const of = variantOf(context, gateUp, op.gateUpBias !== null);
  return { of, tiles: tilesOf(of, expertCount), inputsOfRow: 1 };
}

function downHalf(context: LayerContext, { op, block: { down, expertCount } }: Block): Half {
  const of = variantOf(context, down, op.downBias !== null);
  return { of, tiles: tilesOf(of, expertCount), inputsOfRow: op.topK };
}

function tilesOf(of: ProductVariant, experts: number): MatMulTile[] {
  return experts > kMostOrderedExperts ? [] : gatheredTiles(of);
}

type When = Draft["when"];

// Which steps have tile i, by the rows that an expert has on average. Tile -1 is none.
function stepsWith({ op, block }: Block, { tiles }: Half, i: number): When {
  const begin = i < 0 ? 0 : tiles[i]!.from;
  const end = tiles[i + 1]?.from ?? Infinity;
  return ({ rows }) => {
    const average = (rows * op.topK) / block.expertCount;
    return average >= begin && average < end;
  };
}

function upDrafts(context: LayerContext, own: Block): Draft[] {
  const { op, block, width } = own;
  const half = upHalf(context, own);
  const upRows = context.layer.program.weights[op.gateUp]!.shape[1]!; // gate and up, or up alone
  const shape = { withNorm: false, paired: upRows > width, experts: true };
  const few = { ...half.of, ...shape, tileRows: 1 };
  const slabs = block.gateUp.slabs.map((slab) => upSlab(context, own, slab));
  return [
    ...quantiseDrafts(own, half, slabs[0]!),
    ...orderDrafts(context, own, half),
    ...slabs.flatMap((slab) => [
      {
        ...bound(slab),
        variant: productKernels.matvec(few),
        grid: ({ rows }) => [
          workgroupsOf(slab.groupCount, groupsOfMatVec(few)),
          rows * op.topK,
          1,
        ],
        when: stepsWith(own, half, -1),
      } satisfies Draft,
      ...gatheredDrafts(own, half, { ...half.of, ...shape }, slab),
    ]),
  ];
}

function downDrafts(context: LayerContext, own: Block): Draft[] {
  const { block } = own;
  const half = downHalf(context, own);
  const { of } = half;
  const isOrdered = sameTiles(half, upHalf(context, own));
  const slabs = block.down.slabs.map((slab) => downSlab(context, own, slab));
  const totals = block.down.slabs.map((slab) => totalsSlab(context, own, slab));
  const shape = { withNorm: false, paired: false, experts: false, biased: false };
  return [
    ...quantiseDrafts(own, half, slabs[0]!),
    ...slabs.map((slab): Draft => ({
      ...bound(slab),
      variant: expertKernels.moeDown({ ...of, onGrid: isOnGrid(own) }),
      grid: ({ rows }) => [workgroupsOf(slab.groupCount, groupsOfMoeDown(of)), rows, 1],
      when: stepsWith(own, half, -1),
    })),
    ...(isOrdered ? [] : orderDrafts(context, own, half)),
    ...totals.flatMap((slab) => gatheredDrafts(own, half, { ...of, ...shape }, slab)),
    ...(half.tiles.length > 0 ? [combineDraft(context, own, half)] : []),
  ];
}

function isOnGrid({ op: { grid } }: Block): boolean {
  return grid.step !== 0;
}

function sameTiles({ tiles }: Half, other: Half): boolean {
  const isSame = (tile: MatMulTile, i: number): boolean =>
    tile.rows === other.tiles[i]?.rows && tile.from === other.tiles[i].from;
  return tiles.length === other.tiles.length && tiles.every(isSame);
}

function bound({ params, bound }: BoundSlab): Pick<Draft, "params" | "bound"> {
  return { params, bound };
}

// Integers of inputs: of superblocks for every step, of blocks for tiles alone.
function quantiseDrafts(own: Block, half: Half, slab: BoundSlab): Draft[] {
  const { of, tiles, inputsOfRow } = half;
  const isFew = stepsWith(own, half, -1);
  const isAlways = hasSuperblocks(of);
  if (!isAlways && tiles.length === 0) return [];
  return [
    {
      ...bound(slab),
      variant: productKernels.quantise({ ...of, withNorm: false }),
      grid: ({ rows }) => [rows * inputsOfRow, 1, 1],
      when: (shape) => isAlways || !isFew(shape),
    },
  ];
}

function orderDrafts(context: LayerContext, own: Block, half: Half): Draft[] {
  const { op, route } = own;
  const params = moeOrderOp.bytes({
    rowsAt: context.rowsAt,
    route,
    topK: op.topK,
    orderBase: context.layout.aux.orderAt,
  });
  return half.tiles.map((tile, i) => ({
    variant: expertKernels.moeOrder(tile.rows),
    params,
    bound: {},
    grid: () => [1, 1, 1],
    when: stepsWith(own, half, i),
  }));
}

function gatheredDrafts(
  own: Block,
  half: Half,
  of: Omit<MatMulVariant, "tile">,
  slab: BoundSlab,
): Draft[] {
  const { op, block } = own;
  return half.tiles.map((tile, i) => ({
    ...bound(slab),
    variant: productKernels.matmul({ ...of, tile, gathered: true }),
    grid: ({ rows }) => [
      mostTiles(rows * op.topK, block.expertCount, tile.rows),
      workgroupsOf(slab.groupCount, tile.groups),
      1,
    ],
    when: stepsWith(own, half, i),
  }));
}

function combineDraft(context: LayerContext, own: Block, half: Half): Draft {
  const { op, block, totals } = own;
  const isFew = stepsWith(own, half, -1);
  const [slab] = block.down.slabs;
  const { params } = downSlab(context, { ...own, hidden: totals }, slab!, op.out.columns);
  return {
    variant: expertKernels.moeCombine({ ...half.of, onGrid: isOnGrid(own) }),
    params,
    bound: boundOf(context, slab!),
    grid: ({ rows }) => [Math.ceil(op.out.columns / kCombineColumns), rows, 1],
    when: (shape) => !isFew(shape),
  };
}

function isInOneSlab({ gateUp, down }: ExpertBlock): boolean {
  return gateUp.slabs.length === 1 && down.slabs.length === 1;
}

function filterDraft(context: LayerContext, { op, block, route }: Block): Draft {
  return {
    variant: expertKernels.moePart(),
    params: moePartOp.bytes({
      rowsAt: context.rowsAt,
      route: context.place(op.route),
      out: route,
      topK: op.topK,
      firstExpert: block.firstExpert,
      expertCount: block.expertCount,
    }),
    bound: {},
    grid: ({ rows }) => [Math.ceil(op.topK / 64), rows, 1],
    when: () => true,
  };
}

// Groups from one expert to the next: a matrix in several slabs has only one.
function expertParams({ op, block, route }: Block, matrix: Matrix, bias: number): ExpertParams {
  const groups = matrix.groupCount / block.expertCount;
  return { topK: op.topK, route, groups, bias, grid: op.grid };
}

function biasAt(context: LayerContext, id: number | null, shift: number): number {
  return id === null ? kNone : context.vector(id) + shift;
}

type Told = "groupCount" | "in" | "segments" | "experts";

// What is not told happens to no output.
function boundSlab(
  context: LayerContext,
  matrix: Matrix,
  slab: Slab,
  told: Partial<ProductParams> & Pick<ProductParams, Told>,
): BoundSlab {
  const params = productParams({
    ...shapeOf(context, matrix, slab),
    ...kNoNorm,
    activation: 0,
    residual: null,
    residual2: null,
    roundKind: 0,
    orderBase: context.layout.aux.orderAt / 4,
    ...told,
  });
  return { groupCount: told.groupCount, params, bound: boundOf(context, slab) };
}

// Gate and up, of each pair: the outputs go to `hidden`.
function upSlab(context: LayerContext, own: Block, slab: Slab): BoundSlab {
  const { op, block, hidden, width } = own;
  const matrix = block.gateUp;
  const upRows = context.layer.program.weights[op.gateUp]!.shape[1]!;
  const allGroups = (upRows / width) * groupsOf(width);
  const groupCount = Math.min(slab.groupCount, allGroups); // of an expert in this slab
  const firstBias = block.firstExpert * upRows;
  const segment: Segment = {
    first: 0,
    end: width,
    out: hidden,
    bias: biasAt(context, op.gateUpBias, firstBias),
    biasUp: biasAt(context, op.gateUpBias, firstBias + upRows - width),
  };
  return boundSlab(context, matrix, slab, {
    groupCount,
    in: context.place(op.in),
    activation: op.activation,
    segments: [segment],
    experts: expertParams(own, matrix, upRows),
  });
}

// Down and the sum of a row's pairs. `most`: columns from the slab's first one on.
function downSlab(
  context: LayerContext,
  own: Block,
  slab: Slab,
  most = slab.groupCount * kGroupRows,
): BoundSlab {
  const { step, op, block, hidden, isFirst, isLast, round } = own;
  const matrix = block.down;
  const { columns } = op.out;
  const groupCount = Math.min(slab.groupCount, groupsOf(columns));
  const firstColumn = slab.firstGroup * kGroupRows;
  const placeOf = (view: View): Place => {
    const { base, stride } = context.place(view);
    return { base: base + firstColumn, stride };
  };
  const segment: Segment = {
    first: 0,
    end: Math.min(columns - firstColumn, most),
    out: placeOf(isLast ? step.out : op.out),
    bias: biasAt(context, op.downBias, block.firstExpert * columns + firstColumn),
    biasUp: kNone,
  };
  const experts = expertParams(own, matrix, columns);
  return boundSlab(context, matrix, slab, {
    groupCount,
    in: hidden,
    residual: isFirst ? null : placeOf(op.out),
    residual2: isLast && step.residual ? placeOf(step.residual) : null,
    roundKind: round,
    segments: [segment],
    // moe_down.wgsl knows the end of an expert's groups from this.
    experts: { ...experts, groups: Math.min(experts.groups, groupCount) },
  });
}

// Down of each pair alone: the outputs go to `totals`.
function totalsSlab(context: LayerContext, own: Block, slab: Slab): BoundSlab {
  const { op, block, hidden, totals } = own;
  const matrix = block.down;
  const { columns } = op.out;
  const groupCount = Math.min(slab.groupCount, groupsOf(columns));
  return boundSlab(context, matrix, slab, {
    groupCount,
    in: hidden,
    segments: [{ first: 0, end: columns, out: totals, bias: kNone, biasUp: kNone }],
    experts: expertParams(own, matrix, columns),
  });
}
