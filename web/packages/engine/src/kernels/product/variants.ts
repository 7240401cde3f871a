// The kernels of products: of one row or a tile of a few (`matvec`), of many rows in integers
// (`matmul`), and what makes integers of several rows' inputs before them (`quantise`).
import { DType } from "../../program/ir.ts";
import { Binding } from "../common/bindings.ts";
import type { Variant } from "../common/variant.ts";
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
  superblockRule,
  walkSuperblocks,
} from "./fragments.ts";
import type { Products } from "./fragments.ts";
import matmul from "./matmul.wgsl?raw";
import matmulSuperblocks from "./matmul_superblocks.wgsl?raw";
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
}

export type MatMulVariant = Omit<MatVecVariant, "tileRows" | "experts">;

export interface QuantiseVariant extends Omit<ProductVariant, "biased"> {
  readonly withNorm: boolean;
  readonly byHead?: boolean;
}

const kSerialThreads = 16; // of a workgroup of matvec_serial.wgsl and moe_down_serial.wgsl
const kTileGroups = 2;
// Of a tile: walk_superblocks.wgsl has workgroup memory for them. Sums of k-quants have two parts.
const kMostSuperblockRows = 4;
const kMostKQuantRows = 2;
const kMatMulTile = { kThreadRows: 4, kThreadOutputs: 4 }; // what a thread makes

// Rows and groups that a workgroup of `matmul` makes.
export const kMatMulRows = 32;
export const kMatMulGroups = 8;

// Rows of a tile of a few.
export function tileRowsOf(of: Pick<MatVecVariant, "dtype" | "arithmetic">): number {
  const { tileRows } = of.arithmetic;
  if (!hasSuperblocks(of)) return tileRows;
  return Math.min(tileRows, of.dtype === DType.q4s ? kMostSuperblockRows : kMostKQuantRows);
}

// Groups of 8 rows of the matrix that a workgroup makes.
export function groupsOfMatVec({
  arithmetic: { lanes, outputs },
  paired,
  tileRows,
}: Pick<MatVecVariant, "arithmetic" | "paired" | "tileRows">): number {
  const least = paired ? 2 : 1; // a gate group and its up group
  if (lanes === "serial") return kSerialThreads * least;
  return tileRows > 1 ? kTileGroups : Math.max(least, outputs / 8);
}

export function groupsOfMoeDown(of: Pick<Products, "dtype" | "arithmetic">): number {
  return of.arithmetic.lanes === "serial" && !hasSuperblocks(of) ? kSerialThreads : 2;
}

// The text of everything that products are made of: another version is to be tuned anew.
export function productSources(): string {
  const blocks = [matvec, matvecBlocks, matvecSerial, matmul, quantise];
  const superblocks = [matvecSuperblocks, matmulSuperblocks, quantiseSuperblocks];
  return [...fragmentTexts(), ...blocks, ...superblocks].join("\n");
}

// Those of matrices of superblocks, with their inputs as `quantise` left them.
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
        kernel: [...read, serialSuperblocks, matvecSerial],
      });
    }
    const tile = { kTileRows: tileRows, kGroups: groupsOfMatVec(of) };
    return productVariant(of, {
      name: "matvec superblocks",
      constants: { ...constants, ...tile, kWithNorm: withNorm, ...kinds, kBiased: biased },
      hasVectors: biased,
      hasLanes: false,
      unused: isMany ? [] : [Binding.step],
      kernel: [...read, laneRows, walkSuperblocks, isMany ? rowsMany : rowsOne, matvecSuperblocks],
    });
  },

  matmul({ byHead = false, ...of }: MatMulVariant): Variant {
    const { withNorm, paired, biased } = of;
    const kinds = { kPaired: paired, kExperts: false, kByHead: byHead };
    const { parts, constants } = superblockRule(of.dtype);
    return productVariant(of, {
      name: "matmul superblocks",
      constants: { ...constants, ...kMatMulTile, kWithNorm: withNorm, ...kinds, kBiased: biased },
      hasVectors: biased,
      hasLanes: false,
      unused: [],
      kernel: [...parts, rowsMany, matmulOutputs, matmulSuperblocks],
    });
  },

  quantise({ byHead = false, ...of }: QuantiseVariant): Variant {
    return productVariant(of, {
      name: "quantise superblocks",
      constants: { kWithNorm: of.withNorm, kBiased: false, kByHead: byHead },
      hasVectors: of.withNorm,
      hasLanes: false,
      unused: [Binding.step, Binding.data, Binding.scale],
      kernel: [planesSuperblocks, inputsBlocks, quantiseSuperblocks],
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
    const { withNorm, paired, biased, byHead = false } = of;
    const kinds = { kPaired: paired, kExperts: false, kByHead: byHead };
    const flags = { kWithNorm: withNorm, ...kinds, kBiased: biased };
    return productVariant(of, {
      name: "matmul",
      constants: { ...orderOf(of), ...kMatMulTile, ...flags },
      hasVectors: biased,
      hasLanes: false,
      unused: [],
      kernel: [planesPlace, blocksPlanes, rowsMany, matmulOutputs, matmul],
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
