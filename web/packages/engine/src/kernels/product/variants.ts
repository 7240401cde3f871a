// The kernels of products: of one row or a tile of a few (`matvec`), of many rows in integers
// (`matmul`), and what makes integers of several rows' inputs before them (`quantise`).
import { DType } from "../../program/ir.ts";
import { Binding } from "../common/bindings.ts";
import {
  blocksPlanes,
  fragmentTexts,
  hasIntegerInputs,
  hasSuperblocks,
  inputsBlocks,
  inputsDirect,
  inputsPlanes,
  inputsRows,
  laneRows,
  matmulOutputs,
  orderOf,
  planesPlace,
  planesSuperblocks,
  productVariant,
  rowsMany,
  rowsOne,
  serialSuperblocks,
  superblockPlanes,
  superblockRule,
  superblockScale,
  superblockWalk,
  walkOfBlocks,
  tileGathered,
  tileRows,
  units,
} from "./fragments.ts";
import type { Products } from "./fragments.ts";
import type { Arithmetic } from "./arithmetic.ts";
import type { Constants, Variant } from "../common/variant.ts";
import matmul from "./matmul.wgsl?raw";
import matmulFewUnits from "./matmul_few_units.wgsl?raw";
import matmulSuperblocks from "./matmul_superblocks.wgsl?raw";
import matmulUnits from "./matmul_units.wgsl?raw";
import matmulWholeUnits from "./matmul_whole_units.wgsl?raw";
import matvec from "./matvec.wgsl?raw";
import matvecBlocks from "./matvec_blocks.wgsl?raw";
import matvecSerial from "./matvec_serial.wgsl?raw";
import matvecSuperblocks from "./matvec_superblocks.wgsl?raw";
import quantise from "./quantise.wgsl?raw";
import quantiseSuperblocks from "./quantise_superblocks.wgsl?raw";

export interface ProductVariant extends Products {
  readonly parts: number;
  readonly biased: boolean;
}

export interface MatVecVariant extends ProductVariant {
  readonly tileRows: number;
  readonly withNorm: boolean;
  readonly paired: boolean;
  readonly experts: boolean;
  readonly byHead?: boolean; // each head has rows, and perhaps an input, of its own
  readonly row?: RowTile | null;
}

// How a workgroup divides one row of superblocks, a block a thread (walk_blocks_subgroups.wgsl).
export interface RowTile {
  readonly kAcross: number; // threads side by side along the columns
  readonly kSets: number; // of so many threads
  readonly kEach: number; // how often a set takes kRowsEach outputs
  readonly kRowsEach: number; // 4 or 8
  readonly kAhead: boolean; // whether the next ones' weights are loaded before it multiplies
}

export interface MatMulVariant extends Omit<MatVecVariant, "tileRows" | "row"> {
  readonly tile: Pick<MatMulTile, "rows" | "units">;
  // Tiles have rows of one expert (moe_order.wgsl).
  readonly gathered?: boolean;
}

export interface QuantiseVariant extends Omit<ProductVariant, "biased"> {
  readonly withNorm: boolean;
  readonly byHead?: boolean;
}

const kSerialThreads = 16; // of a workgroup of matvec_serial.wgsl and moe_down_serial.wgsl
const kTileGroups = 2;
// Of a tile: walk_superblocks.wgsl has workgroup memory for them, and with shuffles a lane has
// registers for twice as many. Sums of k-quants have two parts.
const kMostSuperblockRows = 4;
const kMostKQuantRows = 2;
// Of one row of q4s: more outputs leave a lane too few registers, and more threads walk a long row
// with fewer waits.
const kMostRowOutputs = 16;
const kRowThreads = 256;
// Of one row with a block a thread: what was fastest for matrices of so many blocks and groups. Few
// outputs have small tiles, and a row of 160 to 192 blocks has threads for all of them at once.
const kLeastRowBlocks = 64;
const kLongRowBlocks = 160;
const kManyRowGroups = 2048;
const kFewRowGroups = 640;
const kLeastRowGroups = 256;
const kRowTiles = {
  short: { kAcross: 64, kSets: 4, kEach: 2, kRowsEach: 4, kAhead: false },
  shortFew: { kAcross: 64, kSets: 4, kEach: 1, kRowsEach: 4, kAhead: false },
  many: { kAcross: 64, kSets: 4, kEach: 4, kRowsEach: 4, kAhead: true },
  manyK: { kAcross: 64, kSets: 4, kEach: 4, kRowsEach: 4, kAhead: false },
  middle: { kAcross: 128, kSets: 2, kEach: 2, kRowsEach: 8, kAhead: true },
  few: { kAcross: 128, kSets: 2, kEach: 2, kRowsEach: 4, kAhead: false },
  wideMiddle: { kAcross: 128, kSets: 4, kEach: 2, kRowsEach: 8, kAhead: true },
  wide: { kAcross: 128, kSets: 4, kEach: 2, kRowsEach: 4, kAhead: true },
  wideFew: { kAcross: 128, kSets: 4, kEach: 1, kRowsEach: 4, kAhead: false },
  long: { kAcross: 192, kSets: 2, kEach: 2, kRowsEach: 4, kAhead: true },
  longFew: { kAcross: 192, kSets: 2, kEach: 1, kRowsEach: 4, kAhead: false },
} as const satisfies Record<string, RowTile>;
// Outputs of a thread of `matmul`, and blocks of 32 columns that superblocks have at a time.
const kThreadOutputs = 4;
const kStageBlocks = 2;

// What a workgroup of `matmul` makes of how many rows of a step.
export interface MatMulTile {
  readonly rows: number;
  readonly groups: number;
  readonly units: UnitsTile | null; // with matrix units
  readonly from: number; // rows of a step, from here on
}

// How a kernel on matrix units divides a tile among subgroups: along rows and outputs, or along
// outputs and superblocks where there are few rows, 16 or 32.
type UnitsTile =
  | {
      readonly kernel: "parts" | "whole";
      readonly kRowParts: number;
      readonly kColumnParts: number;
    }
  | {
      readonly kernel: "few";
      readonly kTall: number; // 16 rows each
      readonly kColumnParts: number; // of 16 outputs
      readonly kDeep: number;
    };

const kDotsTile: Omit<MatMulTile, "from"> = { rows: 32, groups: 8, units: null };
const kParts: UnitsTile = { kernel: "parts", kRowParts: 2, kColumnParts: 2 };
const kFlatParts: UnitsTile = { kernel: "parts", kRowParts: 1, kColumnParts: 4 };
const kWhole: UnitsTile = { kernel: "whole", kRowParts: 4, kColumnParts: 4 };
const kFew: UnitsTile = { kernel: "few", kTall: 1, kColumnParts: 2, kDeep: 4 };
const kFewDeep: UnitsTile = { kernel: "few", kTall: 1, kColumnParts: 2, kDeep: 8 };
const kFewBroad: UnitsTile = { kernel: "few", kTall: 1, kColumnParts: 4, kDeep: 4 };
const kFewTall: UnitsTile = { kernel: "few", kTall: 2, kColumnParts: 4, kDeep: 4 };

export const kFewUnitsFrom = 9; // rows of a step: no more fill a tile of matvec_superblocks.wgsl
const kWholeFrom = 65;
// So many workgroups keep a GPU of 132 processors busy: fewer leave some without work.
const kEnoughWhole = 96;
const kEnoughFew = 160;

const kGatheredDots: MatMulTile[] = [
  { rows: 16, groups: 8, units: null, from: 2 },
  { rows: 32, groups: 8, units: null, from: 16 },
];
const kGatheredUnits: MatMulTile[] = [tileOf(kFlatParts, 2), tileOf(kParts, 96)];

function tileOf(units: UnitsTile, from: number): MatMulTile {
  const { kColumnParts } = units;
  if (units.kernel !== "few") {
    return { rows: 32 * units.kRowParts, groups: 4 * kColumnParts, units, from };
  }
  return { rows: 16 * units.kTall, groups: 2 * kColumnParts, units, from };
}

// What a kernel is told of its tile, pieces of a thread among it: of weights to make bytes of, of
// rows' bytes, of scales, of sums.
function tileConstants({ rows, units }: Pick<MatMulTile, "rows" | "units">): Constants {
  if (!units) {
    return { kThreadRows: rows / 8, kThreadOutputs, kInputsEach: rows / 16, kStageBlocks };
  }
  const { kColumnParts } = units;
  if (units.kernel === "few") {
    const { kTall, kDeep } = units;
    return {
      ...{ kTall, kColumnParts, kDeep, kTwo: 2 },
      kInputsEach: (4 * kTall) / kColumnParts,
      kScalesEach: Math.ceil((kTall + kColumnParts) / (2 * kColumnParts)),
      kSumsEach: 8 / kDeep,
    };
  }
  const { kernel, kRowParts } = units;
  const own = { kRowParts, kColumnParts, kTwo: 2, kLaneRows: 8 };
  if (kernel === "whole") {
    return { ...own, kFour: 4, kInputsEach: 4 / kColumnParts, kBlocksEach: 8 / kRowParts };
  }
  return {
    ...own,
    kScalesEach: Math.ceil((kRowParts + kColumnParts) / (kRowParts * kColumnParts)),
    kInputsEach: 32 / kColumnParts,
    kBlocksEach: 2 / kRowParts,
  };
}

// Whether matrix units multiply many rows: m * (q - 8) is a byte, levels of k-quants times their
// scales are none.
function hasUnits({ dtype, arithmetic }: Products): boolean {
  return dtype === DType.q4s && arithmetic.units === true;
}

// Rows of a step from which on `matmul` multiplies, where without matrix units it does from
// `usual` on.
export function matMulFrom(of: Products, usual: number): number {
  const isFew = hasUnits(of) && of.arithmetic.fewUnits === true;
  return isFew ? Math.min(kFewUnitsFrom, usual) : usual;
}

// The tiles of `matmul` for steps of `from` to `most` rows, of a matrix of so many groups of 8
// outputs. Each is for steps from its own `from` on, up to the next one's.
//
//   groups 512 (4,096 outputs)    16 x 32 from 9, 16 x 64 from 17, 64 x 64 from 65, 128 x 128
//                                 from 257
//          3,072 (24,576)         16 x 32 from 9, 32 x 64 from 17, 64 x 64 from 33, 128 x 128
//                                 from 65
export function matMulTiles(
  of: Products,
  from: number,
  most: number,
  groups: number,
): MatMulTile[] {
  if (!hasUnits(of)) return [{ ...kDotsTile, from }];
  const isWide = Math.ceil(groups / tileOf(kFew, 0).groups) >= kEnoughFew;
  const few = isWide
    ? [tileOf(kFew, kFewUnitsFrom), tileOf(kFewTall, 17), tileOf(kParts, 33)]
    : [tileOf(kFewDeep, kFewUnitsFrom), tileOf(kFewBroad, 17), tileOf(kParts, 65)];
  const own = of.arithmetic.fewUnits === true ? few : [tileOf(kParts, from)];
  const whole = tileOf(kWhole, kWholeFrom);
  const rowTiles = Math.ceil(kEnoughWhole / Math.ceil(groups / whole.groups));
  const wholeFrom = Math.max(kWholeFrom, (rowTiles - 1) * whole.rows + 1);
  const all = [...own, { ...whole, from: wholeFrom }].filter((tile) => tile.from <= most);
  return all.filter((tile, i) => tile.from < (all[i + 1]?.from ?? Infinity));
}

// Every tile that matrix units may have, each for 32 more rows than the one before it: for a device
// to show that it computes them as the rule has it.
export function everyUnitsTile({ fewUnits = false }: Arithmetic, from: number): MatMulTile[] {
  const few = fewUnits ? [kFew, kFewTall, kFewDeep, kFewBroad] : [];
  return [kParts, kFlatParts, kWhole, ...few].map((units, i) => tileOf(units, from + 32 * i));
}

// The tiles of products of experts whose rows lie together (moe_order.wgsl), by the rows that an
// expert has on average: `from` counts these. Fewer have a kernel for each pair of row and expert.
export function gatheredTiles(of: Products): MatMulTile[] {
  const isDense = hasIntegerInputs(of) && of.arithmetic.lanes !== "serial";
  if (!isDense) return [];
  if (hasUnits(of)) return kGatheredUnits;
  return kGatheredDots;
}

// Rows of tiles of a few, the smaller ones first: weights of superblocks that are made bytes for
// more rows at once cost less.
export function tileRowsOf(of: Pick<MatVecVariant, "dtype" | "arithmetic">): number[] {
  const { tileRows, lanes } = of.arithmetic;
  if (!hasSuperblocks(of)) return [tileRows];
  const most = of.dtype === DType.q4s ? kMostSuperblockRows : kMostKQuantRows;
  return lanes === "subgroups" ? [most, 2 * most] : [Math.min(tileRows, most)];
}

// Groups of 8 rows of the matrix that a workgroup makes.
export function groupsOfMatVec(
  of: Pick<MatVecVariant, "dtype" | "arithmetic" | "paired" | "tileRows" | "row">,
): number {
  const { arithmetic: { lanes, outputs }, paired, tileRows, row } = of;
  if (row) return (row.kSets * row.kEach * row.kRowsEach) / 8;
  const least = paired ? 2 : 1; // a gate group and its up group
  if (lanes === "serial") return kSerialThreads * least;
  if (tileRows > 1) return kTileGroups;
  const most = of.dtype === DType.q4s ? kMostRowOutputs : outputs;
  return Math.max(least, Math.min(outputs, most) / 8);
}

export function groupsOfMoeDown(of: Pick<Products, "dtype" | "arithmetic">): number {
  return of.arithmetic.lanes === "serial" && !hasSuperblocks(of) ? kSerialThreads : 2;
}

// The text of everything that products are made of: another version is to be tuned anew.
export function productSources(): string {
  const blocks = [matvec, matvecBlocks, matvecSerial, matmul, quantise];
  const superblocks = [matvecSuperblocks, matmulSuperblocks, quantiseSuperblocks];
  const withUnits = Object.values(kUnitsKernels);
  return [...fragmentTexts(), ...blocks, ...superblocks, ...withUnits].join("\n");
}

// How a workgroup divides one row of so many blocks, for a matrix of so many groups of 8 outputs;
// null where threads of a block share it. Few outputs have small tiles, so that all of a GPU is
// busy: 1.7B's o and down are 128 and 256 workgroups in place of 64. A tile's terms lie in
// workgroup memory: outputs times kAcross / 8 of them.
export function rowTileOf(
  of: Pick<MatVecVariant, "dtype" | "arithmetic" | "tileRows" | "experts">,
  blocks: number,
  groups: number,
): RowTile | null {
  const { lanes, rowWalk = "quarters" } = of.arithmetic;
  const isOther = rowWalk !== "quarters" && lanes === "subgroups" && preparesOwn(of);
  if (!isOther || blocks < kLeastRowBlocks) return null;
  const isK = of.dtype !== DType.q4s;
  const isFew = groups <= kFewRowGroups && !isK;
  if (blocks < 2 * kLeastRowBlocks) return isFew ? kRowTiles.shortFew : kRowTiles.short;
  if (groups >= kManyRowGroups) return isK ? kRowTiles.manyK : kRowTiles.many;
  const isMiddle = groups > kFewRowGroups && !isK;
  if (rowWalk !== "wide") return isMiddle ? kRowTiles.middle : kRowTiles.few;
  if (isMiddle) return kRowTiles.wideMiddle;
  if (isK) return kRowTiles.wide;
  if (blocks < kLongRowBlocks) return kRowTiles.wideFew;
  return groups <= kLeastRowGroups ? kRowTiles.longFew : kRowTiles.long;
}

// Whether a kernel of superblocks prepares its input itself, so that `quantise` need not.
export function preparesOwn(
  of: Pick<MatVecVariant, "dtype" | "arithmetic" | "tileRows" | "experts">,
): boolean {
  const isSideBySide = hasSuperblocks(of) && of.arithmetic.lanes !== "serial";
  return isSideBySide && of.tileRows === 1 && !of.experts;
}

// Which subgroup a thread is of is not known to the compiler: that tiles differ by nothing else is.
const kUnitsHead = `enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity);
`;

const kUnitsKernels = {
  few: matmulFewUnits,
  parts: matmulUnits,
  whole: matmulWholeUnits,
} as const;

// Rows of every tile of products of experts.
export const kTileRowCounts: readonly number[] = [...kGatheredDots, ...kGatheredUnits].map(
  ({ rows }) => rows,
);

function tileFragments(gathered: boolean): string[] {
  return gathered ? [tileGathered, matmulOutputs] : [rowsMany, tileRows, matmulOutputs];
}

// One row with a block a thread.
function rowOfBlocks(of: MatVecVariant, row: RowTile): Variant {
  const { withNorm, paired, experts, biased, byHead = false } = of;
  const { parts, constants } = superblockRule(of.dtype);
  const { kSets, ...tile } = row;
  const { key, code, bindings } = productVariant(of, {
    name: "matvec blocks",
    constants: {
      ...constants,
      ...tile,
      kTileRows: 1,
      kGroups: groupsOfMatVec(of),
      kThreads: row.kAcross * kSets,
      kPiecesEach: Math.ceil(4 / kSets),
      kWithNorm: withNorm,
      ...{ kPaired: paired, kExperts: experts, kByHead: byHead },
      kBiased: biased,
    },
    hasVectors: biased || withNorm,
    lanesOf: () => [laneRows, ...walkOfBlocks],
    unused: [Binding.step],
    kernel: [...parts, rowsOne, matvecSuperblocks],
  });
  return { key, code, bindings }; // a device has it only if it was measured there
}

// Those of matrices of superblocks.
const superblockKernels = {
  matvec(of: MatVecVariant): Variant {
    const { tileRows, withNorm, paired, experts, biased, byHead = false } = of;
    const isMany = tileRows > 1 || experts;
    const kinds = { kPaired: paired, kExperts: experts, kByHead: byHead };
    const { parts: read, constants } = superblockRule(of.dtype);
    if (of.arithmetic.lanes === "serial") {
      return productVariant(of, {
        name: "matvec superblocks serial",
        constants: { ...constants, kWithNorm: withNorm, ...kinds, kBiased: biased },
        hasVectors: biased,
        hasLanes: false,
        unused: [Binding.step],
        kernel: [...read, superblockPlanes, serialSuperblocks, matvecSerial],
      });
    }
    if (of.row) return rowOfBlocks(of, of.row);
    // Sums of superblocks have no order, so a workgroup may have as many threads as a matrix wants.
    const isRow = of.dtype === DType.q4s && preparesOwn(of);
    const manyThreads = isRow ? kRowThreads : 32 * of.parts;
    const kThreads = of.arithmetic.lanes === "subgroups" ? manyThreads : 128;
    const kGroups = groupsOfMatVec(of);
    const tile = { kTileRows: tileRows, kGroups, kEachRow: 2 * kGroups, kThreads };
    const isOwn = preparesOwn(of);
    return productVariant(of, {
      name: "matvec superblocks",
      constants: { ...constants, ...tile, kWithNorm: withNorm, ...kinds, kBiased: biased },
      hasVectors: biased || (isOwn && withNorm),
      lanesOf: (lanes) => superblockWalk(lanes, isOwn),
      unused: isMany ? [] : [Binding.step],
      kernel: [...read, isMany ? rowsMany : rowsOne, matvecSuperblocks],
    });
  },

  matmul({ byHead = false, gathered = false, tile, ...of }: MatMulVariant): Variant {
    const { withNorm, paired, experts, biased } = of;
    const kinds = { kPaired: paired, kExperts: experts, kByHead: byHead };
    const { parts, constants } = superblockRule(of.dtype);
    const flags = { ...tileConstants(tile), kWithNorm: withNorm, ...kinds, kBiased: biased };
    const kernel = tile.units?.kernel;
    const many = [...parts, superblockPlanes, ...tileFragments(gathered)];
    const made = productVariant(of, {
      name: `matmul ${kernel ? `${kernel} units` : "superblocks"}${gathered ? " gathered" : ""}`,
      constants: { ...constants, ...flags },
      hasVectors: biased,
      hasLanes: false,
      unused: gathered ? [Binding.step] : [],
      kernel: kernel ? [...many, units, kUnitsKernels[kernel]] : [...many, matmulSuperblocks],
    });
    return kernel ? { ...made, code: `${kUnitsHead}${made.code}` } : made;
  },

  quantise({ byHead = false, ...of }: QuantiseVariant): Variant {
    return productVariant(of, {
      name: "quantise superblocks",
      constants: { kWithNorm: of.withNorm, kBiased: false, kByHead: byHead },
      hasVectors: of.withNorm,
      hasLanes: false,
      unused: [Binding.step, Binding.data, Binding.scale],
      kernel: [planesSuperblocks, inputsBlocks, superblockScale, quantiseSuperblocks],
    });
  },
} as const;

export const productKernels = {
  matvec(of: MatVecVariant): Variant {
    const { arithmetic, tileRows, withNorm, paired, experts, biased, byHead = false } = of;
    if (hasSuperblocks(of)) return superblockKernels.matvec(of);
    const kinds = { kPaired: paired, kExperts: experts, kByHead: byHead };
    const flags = { kWithNorm: withNorm, ...kinds, kBiased: biased };
    const name = "matvec";
    if (arithmetic.lanes === "serial") {
      return productVariant(of, {
        name,
        constants: { ...orderOf(of), ...flags },
        hasVectors: withNorm || biased,
        unused: [Binding.step],
        kernel: [matvecSerial],
      });
    }
    const isMany = tileRows > 1 || experts;
    const kGroups = groupsOfMatVec(of);
    const constants = { ...orderOf(of), kTileRows: tileRows, kGroups, ...flags };
    const rows = isMany ? rowsMany : rowsOne;
    const unused = isMany ? [] : [Binding.step];
    if (!hasIntegerInputs(of)) {
      return productVariant(of, {
        name,
        constants,
        hasVectors: withNorm || biased,
        unused,
        kernel: [inputsDirect, rows, matvec],
      });
    }
    // Integers of several rows come from `quantise`.
    const isQuantised = tileRows > 1;
    const inputs = isQuantised ? [planesPlace, blocksPlanes, inputsPlanes] : [inputsRows];
    return productVariant(of, {
      name,
      constants,
      hasVectors: (withNorm && !isQuantised) || biased,
      ...(isQuantised ? { hasLanes: false } : {}),
      unused,
      kernel: [...inputs, rows, laneRows, matvecBlocks],
    });
  },

  // Many rows, of which `quantise` has made integers.
  matmul(of: MatMulVariant): Variant {
    if (hasSuperblocks(of)) return superblockKernels.matmul(of);
    const { withNorm, paired, experts, biased, byHead = false, gathered = false, tile } = of;
    const kinds = { kPaired: paired, kExperts: experts, kByHead: byHead };
    const flags = { kWithNorm: withNorm, ...kinds, kBiased: biased };
    return productVariant(of, {
      name: gathered ? "matmul gathered" : "matmul",
      constants: { ...orderOf(of), ...tileConstants(tile), ...flags },
      hasVectors: biased,
      hasLanes: false,
      unused: gathered ? [Binding.step] : [],
      kernel: [planesPlace, blocksPlanes, ...tileFragments(gathered), matmul],
    });
  },

  quantise(of: QuantiseVariant): Variant {
    if (hasSuperblocks(of)) return superblockKernels.quantise(of);
    return productVariant(of, {
      name: "quantise",
      constants: {
        ...orderOf(of),
        kWithNorm: of.withNorm,
        kBiased: false,
        kByHead: of.byHead ?? false,
      },
      hasVectors: of.withNorm,
      hasLanes: false,
      unused: [Binding.step, Binding.data, Binding.scale],
      kernel: [planesPlace, inputsBlocks, quantise],
    });
  },
} as const;
