// Which fragments a kernel of products is made of: where its weights come from, how 8 or 32 of them
// are multiplied with inputs, and how lanes share the work.
import { Activation, DType, GateKind, isSuperblockFormat, upperBitsOf } from "../../program/ir.ts";
import { named } from "../common/numbers.ts";
import { variant } from "../common/variant.ts";
import type { Constants, Variant } from "../common/variant.ts";
import type { Arithmetic, LaneKind, ProductKind } from "./arithmetic.ts";
import { productOp } from "./ops.ts";
import activation from "../common/fragments/activation.wgsl?raw";
import foundMinima from "./fragments/found_minima.wgsl?raw";
import foundSums from "./fragments/found_sums.wgsl?raw";
import gate from "../common/fragments/gate.wgsl?raw";
import common from "../common/fragments/common.wgsl?raw";
import dotEight from "../common/fragments/dot_eight.wgsl?raw";
import actVec4 from "../common/fragments/act_vec4.wgsl?raw";
import vectors from "../common/fragments/vectors.wgsl?raw";
import vectorsNone from "../common/fragments/vectors_none.wgsl?raw";
import blocksPlanes from "./fragments/blocks_planes.wgsl?raw";
import blocksShared from "./fragments/blocks_shared.wgsl?raw";
import blocksSubgroups from "./fragments/blocks_subgroups.wgsl?raw";
import dotF16F16 from "./fragments/dot_f16_f16.wgsl?raw";
import dotF16F32 from "./fragments/dot_f16_f32.wgsl?raw";
import dotQ4F16 from "./fragments/dot_q4_f16.wgsl?raw";
import dotQ4F32 from "./fragments/dot_q4_f32.wgsl?raw";
import dotQ4Int16 from "./fragments/dot_q4_int16.wgsl?raw";
import dotQ8F16 from "./fragments/dot_q8_f16.wgsl?raw";
import dotQ8F32 from "./fragments/dot_q8_f32.wgsl?raw";
import dotQ8Int16 from "./fragments/dot_q8_int16.wgsl?raw";
import prepareF16 from "./fragments/prepare_f16.wgsl?raw";
import inputsBlocks from "./fragments/inputs_blocks.wgsl?raw";
import inputsDirect from "./fragments/inputs_direct.wgsl?raw";
import inputsPlanes from "./fragments/inputs_planes.wgsl?raw";
import matmulOutputs from "./fragments/matmul_outputs.wgsl?raw";
import inputsRows from "./fragments/inputs_rows.wgsl?raw";
import prepareInt16 from "./fragments/prepare_int16.wgsl?raw";
import planesPlace from "./fragments/planes_place.wgsl?raw";
import ownShared from "./fragments/own_shared.wgsl?raw";
import ownSubgroups from "./fragments/own_subgroups.wgsl?raw";
import ownSuperblocks from "./fragments/own_superblocks.wgsl?raw";
import planesSuperblocks from "./fragments/planes_superblocks.wgsl?raw";
import readSuperblocks from "./fragments/read_superblocks.wgsl?raw";
import ruleKQuants from "./fragments/rule_kquants.wgsl?raw";
import ruleQ4s from "./fragments/rule_q4s.wgsl?raw";
import laneRows from "./fragments/lane_rows.wgsl?raw";
import lanesShared from "./fragments/lanes_shared.wgsl?raw";
import lanesSubgroups from "./fragments/lanes_subgroups.wgsl?raw";
import sumOfParts from "./fragments/parts.wgsl?raw";
import product from "./fragments/product.wgsl?raw";
import rowsMany from "./fragments/rows_many.wgsl?raw";
import rowsOne from "./fragments/rows_one.wgsl?raw";
import rowsQ8 from "./fragments/rows_q8.wgsl?raw";
import scalesBlocks from "./fragments/scales_blocks.wgsl?raw";
import scalesNone from "./fragments/scales_none.wgsl?raw";
import serial from "./fragments/serial.wgsl?raw";
import serialSuperblocks from "./fragments/serial_superblocks.wgsl?raw";
import superblockPlanes from "./fragments/superblock_planes.wgsl?raw";
import tileGathered from "./fragments/tile_gathered.wgsl?raw";
import tileRows from "./fragments/tile_rows.wgsl?raw";
import superblockScale from "./fragments/superblock_scale.wgsl?raw";
import serialBlocks from "./fragments/serial_blocks.wgsl?raw";
import units from "./fragments/units.wgsl?raw";
import walkSuperblocks from "./fragments/walk_superblocks.wgsl?raw";
import walkBlocks from "./fragments/walk_blocks_subgroups.wgsl?raw";
import walkSubgroups from "./fragments/walk_superblocks_subgroups.wgsl?raw";
import weightsBf16 from "./fragments/weights_bf16.wgsl?raw";
import weightsF16 from "./fragments/weights_f16.wgsl?raw";
import weightsF32 from "./fragments/weights_f32.wgsl?raw";
import weightsQ4 from "./fragments/weights_q4.wgsl?raw";
import weightsQ8 from "./fragments/weights_q8.wgsl?raw";
import wordsF16 from "./fragments/words_f16.wgsl?raw";
import zerosQ4 from "./fragments/zeros_q4.wgsl?raw";

export {
  blocksPlanes,
  inputsBlocks,
  inputsDirect,
  inputsPlanes,
  inputsRows,
  laneRows,
  matmulOutputs,
  planesPlace,
  planesSuperblocks,
  rowsMany,
  rowsOne,
  serialSuperblocks,
  superblockPlanes,
  superblockScale,
  tileGathered,
  tileRows,
  units,
};

export const walkOfBlocks = [inputsBlocks, superblockScale, walkBlocks];

// What decides how a product is computed, beside its shape.
export interface Products {
  readonly dtype: number;
  readonly arithmetic: Arithmetic;
}

// The kind that weights of this type get: not all have all kinds.
function kindOf({ dtype, arithmetic: { products } }: Products): ProductKind {
  if (isSuperblockFormat(dtype)) return "int16";
  if (dtype === DType.q4 || dtype === DType.q8) return products;
  return dtype === DType.f16 && products === "f16" ? "f16" : "f32";
}

export function hasIntegerInputs(of: Products): boolean {
  return kindOf(of) === "int16";
}

// Whether the rule is that of superblocks (read_superblocks.wgsl): sums have no order.
export function hasSuperblocks({ dtype }: Pick<Products, "dtype">): boolean {
  return isSuperblockFormat(dtype);
}

// How products of superblocks of a form are made, and what that is told.
export function superblockRule(dtype: number): { parts: string[]; constants: Constants } {
  const parts = [planesSuperblocks, readSuperblocks];
  if (dtype === DType.q4s) return { parts: [...parts, ruleQ4s], constants: {} };
  const kUpperBits = upperBitsOf(dtype);
  const found = kUpperBits === 2 ? foundSums : foundMinima;
  return { parts: [...parts, found, ruleKQuants], constants: { kUpperBits } };
}

// Where products of superblocks get their inputs, and how a workgroup walks them. `own`: the one
// row is prepared on the way.
export function superblockWalk(lanes: LaneKind, own: boolean): string[] {
  const isShuffled = lanes === "subgroups";
  const walk = [laneRows, isShuffled ? walkSubgroups : walkSuperblocks];
  if (!own) return [superblockPlanes, ...walk];
  const shared = isShuffled ? ownSubgroups : ownShared;
  return [inputsBlocks, superblockScale, ownSuperblocks, shared, ...walk];
}

// What the order of sums depends on: the number of parts of lanes, or of classes of blocks.
export function orderOf(of: Products & { parts: number }): Record<string, number> {
  return hasIntegerInputs(of) ? { kClasses: 8 * of.parts } : { kParts: of.parts };
}

// Where 8 weights of 8 rows come from, and their products with 8 inputs; in integers, blocks of 32
// weights of a row.
export function weightFragments(dtype: number, kind: ProductKind): string[] {
  if (isSuperblockFormat(dtype)) return [prepareInt16, dotQ4Int16];
  if (kind === "int16") {
    const dot = dtype === DType.q4 ? [dotQ4Int16, zerosQ4] : [dotQ8Int16];
    return [prepareInt16, ...dot, scalesBlocks];
  }
  const inputs = kind === "f16" ? [prepareF16] : [];
  switch (dtype) {
    case DType.q4: {
      const dot = kind === "f16" ? dotQ4F16 : dotQ4F32;
      return [...inputs, weightsQ4, zerosQ4, dot, scalesBlocks];
    }
    case DType.q8: {
      const dot = kind === "f16" ? dotQ8F16 : dotQ8F32;
      return [...inputs, weightsQ8, dot, rowsQ8, scalesBlocks];
    }
    case DType.f16: {
      const dot = kind === "f16" ? dotF16F16 : dotF16F32;
      return [...inputs, weightsF16, wordsF16, dot, scalesNone];
    }
    case DType.bf16:
      return [weightsBf16, wordsF16, dotF16F32, scalesNone];
    default:
      return [weightsF32, scalesNone];
  }
}

// How lanes share their work: matvec.wgsl sums over them, matvec_blocks.wgsl shares inputs.
function laneFragments(kind: ProductKind, lanes: LaneKind): readonly string[] {
  if (kind === "int16") {
    const own = { subgroups: blocksSubgroups, shared: blocksShared, serial: serialBlocks }[lanes];
    return [inputsBlocks, own];
  }
  return {
    subgroups: [sumOfParts, lanesSubgroups],
    shared: [sumOfParts, lanesShared],
    serial: [serial],
  }[lanes];
}

// Shuffles that a driver refuses give way to workgroup memory, f16 to f32.
function simplerArithmetic(of: Products): Arithmetic | null {
  const { arithmetic } = of;
  if (arithmetic.lanes === "subgroups") return { ...arithmetic, lanes: "shared" };
  return kindOf(of) === "f16" ? { ...arithmetic, products: "f32" } : null;
}

export interface ProductSource {
  readonly name: string;
  readonly constants: Constants;
  readonly hasVectors: boolean; // weights of a norm, or biases
  readonly hasLanes?: false; // nothing is summed over lanes
  // How lanes share the work; else as `laneFragments` has it.
  readonly lanesOf?: (lanes: LaneKind) => readonly string[];
  readonly unused: readonly number[];
  readonly kernel: readonly string[];
}

export function productVariant(of: Products, source: ProductSource): Variant {
  const { name, constants, hasVectors, hasLanes = true, lanesOf, unused, kernel } = source;
  const { lanes } = of.arithmetic;
  const kind = kindOf(of);
  const read = hasVectors ? vectors : vectorsNone;
  const weights = weightFragments(of.dtype, kind);
  const fragmentsOf = lanesOf ?? ((of: LaneKind) => laneFragments(kind, of));
  const inOrder = hasLanes ? fragmentsOf(lanes) : [];
  const shared = [common, actVec4, read, dotEight, ...weights, activation, gate, product];
  const made = variant({
    name: `${name} dtype ${of.dtype} ${kind}${hasLanes ? ` ${lanes}` : ""}`,
    op: productOp,
    numbers: named("Activation", Activation) + named("Gate", GateKind),
    constants,
    parts: [...shared, ...inOrder, ...kernel],
    unused,
  });
  if (!hasLanes) return made;
  const enabled = [
    ...(kind === "f16" ? ["enable f16;\n"] : []),
    ...(lanes === "subgroups" ? ["enable subgroups;\n"] : []),
  ];
  const whole = { ...made, code: `${enabled.join("")}${made.code}` };
  const plain = simplerArithmetic(of);
  if (!plain) return whole;
  return { ...whole, simpler: productVariant({ ...of, arithmetic: plain }, source) };
}

// The text of every fragment that a choice of arithmetic may take.
export function fragmentTexts(): string[] {
  const inputs = [prepareInt16, prepareF16, inputsBlocks, inputsDirect, inputsPlanes, inputsRows];
  const dots = [dotQ4F16, dotQ4F32, dotQ4Int16, dotF16F32, weightsQ4, weightsF32];
  const lanes = [sumOfParts, lanesShared, lanesSubgroups, blocksShared, blocksSubgroups];
  const kQuants = [foundMinima, foundSums, ruleKQuants];
  const rules = [planesSuperblocks, readSuperblocks, ruleQ4s, ...kQuants];
  const own = [superblockScale, ownSuperblocks, ownShared, ownSubgroups];
  const walks = [superblockPlanes, walkSuperblocks, walkSubgroups, walkBlocks, serialSuperblocks];
  const superblocks = [...rules, ...own, ...walks];
  const tiles = [tileRows, tileGathered, matmulOutputs, units];
  const planes = [laneRows, planesPlace, blocksPlanes, ...tiles, ...superblocks];
  return [...inputs, ...dots, ...lanes, product, serial, serialBlocks, ...planes];
}
