// Experts as dispatches: gate, up and activation of every (row, expert of its route), then down and
// the sum. Where the experts of a layer do not fit one binding they come in blocks, one after the
// other: a filter writes the part of each route that names experts of the block (the others get
// weight 0), and every block adds to what the blocks before it left.
import { kNone } from "../kernels/common/op.ts";
import type { Place } from "../kernels/common/op.ts";
import { expertKernels, moePartOp } from "../kernels/experts/experts.ts";
import { hasSuperblocks } from "../kernels/product/fragments.ts";
import { productParams } from "../kernels/product/ops.ts";
import type { ExpertParams, Segment } from "../kernels/product/ops.ts";
import { groupsOfMatVec, groupsOfMoeDown, productKernels } from "../kernels/product/variants.ts";
import type { MoeExperts, View } from "../program/ir.ts";
import { groupsOf, kGroupRows } from "../weights/matrix.ts";
import type { Matrix, Slab } from "../weights/matrix.ts";
import type { Draft } from "./dispatch.ts";
import { padded, rowsOfLayer } from "./layout.ts";
import type { Experts } from "./fuse.ts";
import type { LayerContext } from "./layerContext.ts";
import type { ExpertBlock } from "./loadedLayer.ts";
import { boundOf, shapeOf, variantOf, workgroupsOf } from "./products.ts";

const kNoNorm = { normBase: kNone, epsilon: 0 } as const;

// What the dispatches of one block share.
interface Block {
  readonly step: Experts;
  readonly op: MoeExperts;
  readonly block: ExpertBlock;
  readonly route: Place;
  readonly hidden: Place; // [rows * topK, width]
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
  const isWhole = blocks.length === 1 && isInOneSlab(blocks[0]!);
  const route = isWhole
    ? context.place(op.route)
    : { base: expertBase + rows * op.topK * hidden.stride, stride: padded(2 * op.topK) };
  return blocks.flatMap((block, index) => {
    const isLast = index + 1 === blocks.length;
    const shared = { step, op, block, route, hidden, width, isFirst: index === 0, isLast };
    const own: Block = { ...shared, round: isLast ? round : 0 };
    return [
      ...(isWhole ? [] : [filterDraft(context, own)]),
      ...withInputs(
        context,
        block.gateUp,
        block.gateUp.slabs.map((slab) => upDraft(context, own, slab)),
        (rows) => rows,
      ),
      ...withInputs(
        context,
        block.down,
        block.down.slabs.map((slab) => downDraft(context, own, slab)),
        (rows) => rows * op.topK,
      ),
    ];
  });
}

// Matrices of superblocks have their inputs prepared by a kernel of its own.
function withInputs(
  context: LayerContext,
  matrix: Matrix,
  drafts: readonly Draft[],
  rowsOf: (rows: number) => number,
): readonly Draft[] {
  const of = variantOf(context, matrix, false);
  if (!hasSuperblocks(of)) return drafts;
  const { params, bound } = drafts[0]!;
  const quantise: Draft = {
    variant: productKernels.quantise({ ...of, withNorm: false }),
    params,
    bound,
    grid: ({ rows }) => [rowsOf(rows), 1, 1],
    when: () => true,
  };
  return [quantise, ...drafts];
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
  return { topK: op.topK, route, groups: matrix.groupCount / block.expertCount, bias };
}

function biasAt(context: LayerContext, id: number | null, shift: number): number {
  return id === null ? kNone : context.vector(id) + shift;
}

function upDraft(context: LayerContext, own: Block, slab: Slab): Draft {
  const { op, block, hidden, width } = own;
  const matrix = block.gateUp;
  const upRows = context.layer.program.weights[op.gateUp]!.shape[1]!; // gate and up, or up alone
  const paired = upRows > width;
  const allGroups = (upRows / width) * groupsOf(width);
  const groups = Math.min(slab.groupCount, allGroups); // of an expert in this slab
  const firstBias = block.firstExpert * upRows;
  const segment: Segment = {
    first: 0,
    end: width,
    out: hidden,
    bias: biasAt(context, op.gateUpBias, firstBias),
    biasUp: biasAt(context, op.gateUpBias, firstBias + upRows - width),
  };
  const shape = { tileRows: 1, withNorm: false, paired, experts: true };
  const variant = { ...variantOf(context, matrix, op.gateUpBias !== null), ...shape };
  const perWorkgroup = groupsOfMatVec(variant);
  return {
    variant: productKernels.matvec(variant),
    params: productParams({
      ...shapeOf(context, matrix, slab),
      ...kNoNorm,
      groupCount: groups,
      in: context.place(op.in),
      activation: op.activation,
      residual: null,
      residual2: null,
      roundKind: 0,
      segments: [segment],
      experts: expertParams(own, matrix, upRows),
    }),
    bound: boundOf(context, slab),
    grid: ({ rows }) => [workgroupsOf(groups, perWorkgroup), rows * op.topK, 1],
    when: () => true,
  };
}

function downDraft(context: LayerContext, own: Block, slab: Slab): Draft {
  const { step, op, block, hidden, isFirst, isLast, round } = own;
  const matrix = block.down;
  const { columns } = op.out;
  const groups = Math.min(slab.groupCount, groupsOf(columns));
  const firstColumn = slab.firstGroup * kGroupRows;
  const placeOf = (view: View): Place => {
    const { base, stride } = context.place(view);
    return { base: base + firstColumn, stride };
  };
  const segment: Segment = {
    first: 0,
    end: Math.min(columns - firstColumn, groups * kGroupRows),
    out: placeOf(isLast ? step.out : op.out),
    bias: biasAt(context, op.downBias, block.firstExpert * columns + firstColumn),
    biasUp: kNone,
  };
  const experts = expertParams(own, matrix, columns);
  const variant = variantOf(context, matrix, op.downBias !== null);
  const perWorkgroup = groupsOfMoeDown(variant);
  return {
    variant: expertKernels.moeDown(variant),
    params: productParams({
      ...shapeOf(context, matrix, slab),
      ...kNoNorm,
      groupCount: groups,
      in: hidden,
      activation: 0,
      residual: isFirst ? null : placeOf(op.out),
      residual2: isLast && step.residual ? placeOf(step.residual) : null,
      roundKind: round,
      segments: [segment],
      // moe_down.wgsl knows the end of an expert's groups from this.
      experts: { ...experts, groups: Math.min(experts.groups, groups) },
    }),
    bound: boundOf(context, slab),
    grid: ({ rows }) => [workgroupsOf(groups, perWorkgroup), rows, 1],
    when: () => true,
  };
}
