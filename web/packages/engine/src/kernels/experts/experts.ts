// The kernels of experts: their choice, and the second half of what they compute. The first half,
// gate and up, is a product of the kind `experts` (product/variants.ts).
import { kMaxRouteGroups, RouteKind } from "../../program/ir.ts";
import { Binding } from "../common/bindings.ts";
import { named } from "../common/numbers.ts";
import { declareOp } from "../common/op.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import type { Arithmetic } from "../product/arithmetic.ts";
import {
  hasIntegerInputs,
  hasSuperblocks,
  orderOf,
  productVariant,
  superblockRule,
  superblockWalk,
} from "../product/fragments.ts";
import { kTileRowCounts } from "../product/variants.ts";
import type { ProductVariant } from "../product/variants.ts";
import common from "../common/fragments/common.wgsl?raw";
import actF32 from "../common/fragments/act_f32.wgsl?raw";
import moeCombine from "./moe_combine.wgsl?raw";
import moeDown from "./moe_down.wgsl?raw";
import moeDownBlocks from "./moe_down_blocks.wgsl?raw";
import moeDownSerial from "./moe_down_serial.wgsl?raw";
import moeDownSuperblocks from "./moe_down_superblocks.wgsl?raw";
import moeOrder from "./moe_order.wgsl?raw";
import moePart from "./moe_part.wgsl?raw";
import sumGrid from "./fragments/sum_grid.wgsl?raw";
import moeChoice from "./fragments/moe_choice.wgsl?raw";
import moeRoute from "./moe_route.wgsl?raw";
import moeRouteAll from "./moe_route_all.wgsl?raw";
import moeRouteSerial from "./moe_route_serial.wgsl?raw";

// A row of a route, [row, 2 topK * parts]: first the experts' indices, then their weights.
export const moeRouteOp = declareOp({
  rowsAt: "u32",
  logits: "place",
  out: "place",
  experts: "u32",
  topK: "u32",
  kind: "u32",
  bias: "u32", // in `vectors`, or kNone
  groups: "u32",
  topGroups: "u32",
  groupBest: "u32",
  scale: "f32",
  parts: "u32", // of each expert, at least 1
});

export const moeOrderOp = declareOp({
  rowsAt: "u32",
  route: "place",
  topK: "u32",
  orderBase: "u32", // in `aux`, a multiple of 4
});

export const kMostOrderedExperts = 1024; // of moe_order.wgsl

// Tiles that so many pairs of a row and an expert make at most.
export function mostTiles(pairs: number, experts: number, tileRows: number): number {
  return Math.floor((pairs + Math.min(pairs, experts) * (tileRows - 1)) / tileRows);
}

// Words of `aux` for tiles of any size.
export function orderWords(pairs: number, experts: number): number {
  const wordsOf = (rows: number): number => 4 + mostTiles(pairs, experts, rows) * (rows + 4);
  return Math.max(...kTileRowCounts.map(wordsOf));
}

export const moePartOp = declareOp({
  rowsAt: "u32",
  route: "place",
  out: "place",
  topK: "u32",
  firstExpert: "u32",
  expertCount: "u32",
});

// The second half of experts. `onGrid`: each expert's output is rounded before it is weighted.
export interface ExpertSums extends ProductVariant {
  readonly onGrid: boolean;
}

export const expertKernels = {
  moeDown(of: ExpertSums): Variant {
    if (hasSuperblocks(of)) {
      const flags = {
        kWithNorm: false,
        kBiased: of.biased,
        kByHead: false,
        kOnGrid: of.onGrid,
      };
      const tile = { kTileRows: 1, kGroups: 2, kEachRow: 4, kThreads: 128 };
      const { parts, constants } = superblockRule(of.dtype);
      return productVariant(of, {
        name: "moe_down superblocks",
        constants: { ...constants, ...tile, ...flags },
        hasVectors: of.biased,
        lanesOf: (lanes) => superblockWalk(lanes === "serial" ? "shared" : lanes, false),
        unused: [Binding.step],
        kernel: [...parts, sumGrid, moeDownSuperblocks],
      });
    }
    const isSerial = of.arithmetic.lanes === "serial";
    const kernel = hasIntegerInputs(of) ? moeDownBlocks : moeDown;
    return productVariant(of, {
      name: "moe_down",
      constants: { ...orderOf(of), kBiased: of.biased, kByHead: false, kOnGrid: of.onGrid },
      hasVectors: of.biased,
      unused: [Binding.step],
      kernel: [sumGrid, isSerial ? moeDownSerial : kernel],
    });
  },
  // What is left to do behind a product of the second half with rows in the order of experts.
  moeCombine: (of: ExpertSums): Variant =>
    productVariant(of, {
      name: "moe_combine",
      constants: { kBiased: of.biased, kByHead: false, kOnGrid: of.onGrid },
      hasVectors: of.biased,
      hasLanes: false,
      unused: [Binding.step, Binding.data, Binding.scale],
      kernel: [sumGrid, moeCombine],
    }),
  moeOrder: (tileRows: number): Variant =>
    variant({
      name: "moe_order",
      op: moeOrderOp,
      constants: { kTileRows: tileRows, kMostExperts: kMostOrderedExperts },
      parts: [common, actF32, moeOrder],
    }),
  moePart: (): Variant =>
    variant({ name: "moe_part", op: moePartOp, parts: [common, actF32, moePart] }),
  moeRouteAll: (): Variant =>
    variant({ name: "moe_route_all", op: moeRouteOp, parts: [common, actF32, moeRouteAll] }),
  moeRoute: (lanes: Arithmetic["lanes"]): Variant =>
    variant({
      name: lanes === "serial" ? "moe_route_serial" : "moe_route",
      op: moeRouteOp,
      numbers: named("RouteKind", RouteKind),
      constants: { kMaxGroups: kMaxRouteGroups },
      parts: [common, actF32, moeChoice, lanes === "serial" ? moeRouteSerial : moeRoute],
    }),
} as const;
