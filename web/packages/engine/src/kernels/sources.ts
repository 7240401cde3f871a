// The WGSL of every pipeline: which files it is made of and which constants stand before them. A
// variant's key names its pipeline in gpu/pipelines.ts.
import { Binding } from "./common/bindings.ts";
import { DType } from "../program/ir.ts";
import type { Arithmetic, LaneKind, ProductKind } from "./product/arithmetic.ts";
import { repeated } from "./common/repeat.ts";
import activation from "./common/fragments/activation.wgsl?raw";
import argmax from "./select/argmax.wgsl?raw";
import attention from "./attention/attention.wgsl?raw";
import attentionCombine from "./attention/attention_combine.wgsl?raw";
import attentionRows from "./attention/fragments/attention_rows.wgsl?raw";
import attentionSessions from "./attention/attention_sessions.wgsl?raw";
import attentionTiles from "./attention/fragments/attention_tiles.wgsl?raw";
import attentionMerge from "./attention/fragments/attention_merge.wgsl?raw";
import blocksPlanes from "./product/fragments/blocks_planes.wgsl?raw";
import blocksShared from "./product/fragments/blocks_shared.wgsl?raw";
import blocksSubgroups from "./product/fragments/blocks_subgroups.wgsl?raw";
import check from "./rows/check.wgsl?raw";
import common from "./common/fragments/common.wgsl?raw";
import dotEight from "./common/fragments/dot_eight.wgsl?raw";
import dotF16F16 from "./product/fragments/dot_f16_f16.wgsl?raw";
import dotHalves from "./product/fragments/dot_halves.wgsl?raw";
import dotQ4F16 from "./product/fragments/dot_q4_f16.wgsl?raw";
import dotQ4Floats from "./product/fragments/dot_q4_floats.wgsl?raw";
import dotQ4Integers from "./product/fragments/dot_q4_integers.wgsl?raw";
import dotQ8F16 from "./product/fragments/dot_q8_f16.wgsl?raw";
import dotQ8Floats from "./product/fragments/dot_q8_floats.wgsl?raw";
import dotQ8Integers from "./product/fragments/dot_q8_integers.wgsl?raw";
import elementwise from "./rows/elementwise.wgsl?raw";
import embed from "./rows/embed.wgsl?raw";
import halves from "./product/fragments/halves.wgsl?raw";
import head from "./attention/fragments/head.wgsl?raw";
import inputsDirect from "./product/fragments/inputs_direct.wgsl?raw";
import inputsBlocks from "./product/fragments/inputs_blocks.wgsl?raw";
import inputsPlanes from "./product/fragments/inputs_planes.wgsl?raw";
import inputsRows from "./product/fragments/inputs_rows.wgsl?raw";
import integers from "./product/fragments/integers.wgsl?raw";
import kvF16 from "./attention/fragments/kv_f16.wgsl?raw";
import kvF32 from "./attention/fragments/kv_f32.wgsl?raw";
import kvTilesF16 from "./attention/fragments/kv_tiles_f16.wgsl?raw";
import kvTilesF32 from "./attention/fragments/kv_tiles_f32.wgsl?raw";
import lanesShared from "./product/fragments/lanes_shared.wgsl?raw";
import lanesSubgroups from "./product/fragments/lanes_subgroups.wgsl?raw";
import matmul from "./product/matmul.wgsl?raw";
import matvec from "./product/matvec.wgsl?raw";
import matvecBlocks from "./product/matvec_blocks.wgsl?raw";
import matvecSerial from "./product/matvec_serial.wgsl?raw";
import moeDown from "./experts/moe_down.wgsl?raw";
import moeDownBlocks from "./experts/moe_down_blocks.wgsl?raw";
import moeDownSerial from "./experts/moe_down_serial.wgsl?raw";
import moePart from "./experts/moe_part.wgsl?raw";
import moeRoute from "./experts/moe_route.wgsl?raw";
import norm from "./rows/norm.wgsl?raw";
import sumOfParts from "./product/fragments/parts.wgsl?raw";
import product from "./product/fragments/product.wgsl?raw";
import qkNormRope from "./attention/qk_norm_rope.wgsl?raw";
import quads from "./common/fragments/quads.wgsl?raw";
import quantise from "./product/quantise.wgsl?raw";
import reduce from "./common/fragments/reduce.wgsl?raw";
import repack from "./load/repack.wgsl?raw";
import rowsMany from "./product/fragments/rows_many.wgsl?raw";
import rowsOne from "./product/fragments/rows_one.wgsl?raw";
import rowsQ8 from "./product/fragments/rows_q8.wgsl?raw";
import scaledSum from "./select/scaled_sum.wgsl?raw";
import sample from "./sample/fragments/sample.wgsl?raw";
import sampleChange from "./sample/sample_change.wgsl?raw";
import sampleHistogram from "./sample/sample_histogram.wgsl?raw";
import sampleMinP from "./sample/sample_min_p.wgsl?raw";
import samplePick from "./sample/sample_pick.wgsl?raw";
import sampleScan from "./sample/sample_scan.wgsl?raw";
import scalesBlocks from "./product/fragments/scales_blocks.wgsl?raw";
import scalesNone from "./product/fragments/scales_none.wgsl?raw";
import serial from "./product/fragments/serial.wgsl?raw";
import serialBlocks from "./product/fragments/serial_blocks.wgsl?raw";
import topK from "./select/top_k.wgsl?raw";
import unpack from "./rows/unpack.wgsl?raw";
import values from "./common/fragments/values.wgsl?raw";
import vectors from "./common/fragments/vectors.wgsl?raw";
import vectorsNone from "./common/fragments/vectors_none.wgsl?raw";
import weightsBf16 from "./product/fragments/weights_bf16.wgsl?raw";
import weightsF16 from "./product/fragments/weights_f16.wgsl?raw";
import weightsF32 from "./product/fragments/weights_f32.wgsl?raw";
import weightsQ4 from "./product/fragments/weights_q4.wgsl?raw";
import weightsQ8 from "./product/fragments/weights_q8.wgsl?raw";
import wordsHalves from "./product/fragments/words_halves.wgsl?raw";
import zerosQ4 from "./product/fragments/zeros_q4.wgsl?raw";

export interface Variant {
  readonly key: string;
  readonly code: string;
  readonly bindings: readonly number[]; // what the kernel uses of the common ones
  // Runs in its place where the driver refuses it: the same bindings, parameters and grid.
  readonly simpler?: Variant;
}

export interface ProductVariant {
  readonly dtype: number;
  readonly arithmetic: Arithmetic;
  readonly parts: number;
  readonly biased: boolean;
}

export interface MatVecVariant extends ProductVariant {
  readonly tileRows: number;
  readonly withNorm: boolean;
  readonly paired: boolean;
  readonly experts: boolean;
}

export type MatMulVariant = Omit<MatVecVariant, "tileRows" | "experts">;

export interface QuantiseVariant extends Omit<ProductVariant, "biased"> {
  readonly withNorm: boolean;
}

type Products = Pick<ProductVariant, "dtype" | "arithmetic">;

// Of weights of this type: not all have all kinds.
function kindOf({ dtype, arithmetic: { products } }: Products): ProductKind {
  if (dtype === DType.q4 || dtype === DType.q8) return products;
  return dtype === DType.f16 && products === "halves" ? "halves" : "floats";
}

export function hasIntegerInputs(of: Products): boolean {
  return kindOf(of) === "integers";
}

// What the order of sums depends on: of parts of lanes, or of classes of blocks.
function orderOf(of: Products & { parts: number }): Record<string, number> {
  return hasIntegerInputs(of) ? { kClasses: 8 * of.parts } : { kParts: of.parts };
}

// Where 8 weights of 8 rows come from, and their products with 8 inputs; in integers, blocks of 32
// weights of a row.
function weights(dtype: number, kind: ProductKind): string[] {
  if (kind === "integers") {
    const dot = dtype === DType.q4 ? [dotQ4Integers, zerosQ4] : [dotQ8Integers];
    return [integers, ...dot, scalesBlocks];
  }
  const inputs = kind === "halves" ? [halves] : [];
  switch (dtype) {
    case DType.q4: {
      const dot = kind === "halves" ? dotQ4F16 : dotQ4Floats;
      return [...inputs, weightsQ4, zerosQ4, dot, scalesBlocks];
    }
    case DType.q8: {
      const dot = kind === "halves" ? dotQ8F16 : dotQ8Floats;
      return [...inputs, weightsQ8, dot, rowsQ8, scalesBlocks];
    }
    case DType.f16: {
      const dot = kind === "halves" ? dotF16F16 : dotHalves;
      return [...inputs, weightsF16, wordsHalves, dot, scalesNone];
    }
    case DType.bf16:
      return [weightsBf16, wordsHalves, dotHalves, scalesNone];
    default:
      return [weightsF32, scalesNone];
  }
}

interface ProductSources {
  readonly hasVectors: boolean; // weights of a norm, or biases
  readonly hasLanes?: false; // nothing is summed over lanes
  readonly unused: readonly number[];
  readonly kernel: readonly string[];
}

function productParts(of: Products, { hasVectors, kernel }: ProductSources): string[] {
  const read = hasVectors ? vectors : vectorsNone;
  const own = weights(of.dtype, kindOf(of));
  return [common, quads, read, dotEight, ...own, activation, product, ...kernel];
}

function constants(values: Record<string, number | boolean>): string {
  return Object.entries(values)
    .map(([name, value]) => `const ${name} = ${value}${typeof value === "number" ? "u" : ""};\n`)
    .join("");
}

// Declared in common.wgsl and the files beside it. What a kernel does not use is not bound: a
// device tracks every buffer of every dispatch.
const kNames = ["step", "op", "act", "vectors", "wdata", "wscale", "kv", "aux|planes"] as const;

// Functions that no kernel of the text calls do not count: `unused` names their bindings.
function usedBindings(code: string, unused: readonly number[]): Omit<Variant, "key"> {
  const bindings: number[] = [];
  let kept = code;
  for (const [binding, names] of kNames.entries()) {
    const isNamed = new RegExp(`\\b(${names})[\\[.]`).test(code);
    const place = `@group\\(0\\) @binding\\(${binding}\\)`;
    if (!isNamed) kept = kept.replace(new RegExp(`^${place}.*\\b(${names}):.*\\n`, "m"), "");
    else if (!unused.includes(binding)) bindings.push(binding);
  }
  return { code: kept, bindings };
}

const variants = new Map<string, Variant>(); // every layer asks for the same ones

function variant(
  name: string,
  values: Record<string, number | boolean>,
  ...parts: string[]
): Variant {
  return variantWithout([], name, values, ...parts);
}

function variantWithout(
  unused: readonly number[],
  name: string,
  values: Record<string, number | boolean>,
  ...parts: string[]
): Variant {
  const key = [name, ...Object.values(values)].join(" ");
  const known = variants.get(key);
  if (known) return known;
  const text = repeated(parts.join("\n"), values);
  const made = { key, ...usedBindings(`${constants(values)}\n${text}`, unused) };
  variants.set(key, made);
  return made;
}

const sampling = {
  change: sampleChange,
  histogram: sampleHistogram,
  minP: sampleMinP,
  pick: samplePick,
  scan: sampleScan,
} as const;

// Shuffles that a driver refuses give way to workgroup memory, f16 to f32.
function simplerArithmetic(of: Products): Arithmetic | null {
  const { arithmetic } = of;
  if (arithmetic.lanes === "subgroups") return { ...arithmetic, lanes: "shared" };
  return kindOf(of) === "halves" ? { ...arithmetic, products: "floats" } : null;
}

// How lanes share their work: matvec.wgsl sums over them, matvec_blocks.wgsl shares inputs.
function laneSources(kind: ProductKind, lanes: LaneKind): readonly string[] {
  if (kind === "integers") {
    const own = { subgroups: blocksSubgroups, shared: blocksShared, serial: serialBlocks }[lanes];
    return [inputsBlocks, own];
  }
  return {
    subgroups: [sumOfParts, lanesSubgroups],
    shared: [sumOfParts, lanesShared],
    serial: [serial],
  }[lanes];
}

function productVariant(
  name: string,
  of: Products,
  constant: Record<string, number | boolean>,
  sources: ProductSources,
): Variant {
  const { lanes } = of.arithmetic;
  const kind = kindOf(of);
  const hasLanes = sources.hasLanes ?? true;
  const full = `${name} dtype ${of.dtype} ${kind}${hasLanes ? ` ${lanes}` : ""}`;
  const inOrder = hasLanes ? laneSources(kind, lanes) : [];
  const all = { ...sources, kernel: [...inOrder, ...sources.kernel] };
  const made = variantWithout(sources.unused, full, constant, ...productParts(of, all));
  if (!hasLanes) return made;
  const enabled = [
    ...(kind === "halves" ? ["enable f16;\n"] : []),
    ...(lanes === "subgroups" ? ["enable subgroups;\n"] : []),
  ];
  const whole = { ...made, code: `${enabled.join("")}${made.code}` };
  const plain = simplerArithmetic(of);
  if (!plain) return whole;
  const simpler = productVariant(name, { ...of, arithmetic: plain }, constant, sources);
  return { ...whole, simpler };
}

const kSerialThreads = 16; // of a workgroup of matvec_serial.wgsl and moe_down_serial.wgsl
const kTileGroups = 2;
const kMatMulTile = { kThreadRows: 4, kThreadOutputs: 4 }; // what a thread makes

// Rows and groups that a workgroup of `matmul` makes.
export const kMatMulRows = 32;
export const kMatMulGroups = 8;

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

export function groupsOfMoeDown({ lanes }: Arithmetic): number {
  return lanes === "serial" ? kSerialThreads : 2;
}

// The text of everything that products are made of: another version is to be tuned anew.
export function productSources(): string {
  const inputs = [integers, halves, inputsBlocks, inputsDirect, inputsPlanes, inputsRows];
  const dots = [dotQ4F16, dotQ4Floats, dotQ4Integers, dotHalves, weightsQ4, weightsF32];
  const lanes = [sumOfParts, lanesShared, lanesSubgroups, blocksShared, blocksSubgroups];
  const sums = [product, serial, serialBlocks, blocksPlanes];
  const whole = [matvec, matvecBlocks, matvecSerial, matmul, quantise];
  return [...inputs, ...dots, ...lanes, ...sums, ...whole].join("\n");
}

// Queries that `attentionRows` makes at a time: heads of usual widths have a kernel for more.
export function tileQueriesOf(columns: number): number {
  return isTiledHead(columns) ? 16 : 4;
}

function isTiledHead(columns: number): boolean {
  return columns % 8 === 0 && columns <= 128;
}

// Kernels that give the bindings names of their own.
const kAllBindings = [0, 1, 2, 3, 4, 5, 6, 7];

export const kernels = {
  matvec(of: MatVecVariant): Variant {
    const { arithmetic, tileRows, withNorm, paired, experts, biased } = of;
    const flags = { kWithNorm: withNorm, kPaired: paired, kExperts: experts, kBiased: biased };
    if (arithmetic.lanes === "serial") {
      return productVariant("matvec", of, { ...orderOf(of), ...flags }, {
        hasVectors: withNorm || biased,
        unused: [Binding.step],
        kernel: [matvecSerial],
      });
    }
    const isMany = tileRows > 1 || experts;
    const kGroups = groupsOfMatVec(of);
    const constant = { ...orderOf(of), kTileRows: tileRows, kGroups, ...flags };
    const rows = isMany ? rowsMany : rowsOne;
    const unused = isMany ? [] : [Binding.step];
    if (!hasIntegerInputs(of)) {
      const kernel = [inputsDirect, rows, matvec];
      return productVariant("matvec", of, constant, {
        hasVectors: withNorm || biased,
        unused,
        kernel,
      });
    }
    // Integers of several rows come from `quantise`.
    const isQuantised = tileRows > 1;
    const inputs = isQuantised ? [blocksPlanes, inputsPlanes] : [inputsRows];
    return productVariant("matvec", of, constant, {
      hasVectors: (withNorm && !isQuantised) || biased,
      ...(isQuantised ? { hasLanes: false } : {}),
      unused,
      kernel: [...inputs, rows, matvecBlocks],
    });
  },
  // Of the integers that `quantise` makes, for many rows.
  matmul(of: MatMulVariant): Variant {
    const { withNorm, paired, biased } = of;
    const flags = { kWithNorm: withNorm, kPaired: paired, kExperts: false, kBiased: biased };
    return productVariant("matmul", of, { ...orderOf(of), ...kMatMulTile, ...flags }, {
      hasVectors: biased,
      hasLanes: false,
      unused: [],
      kernel: [blocksPlanes, rowsMany, matmul],
    });
  },
  quantise(of: QuantiseVariant): Variant {
    const constant = { ...orderOf(of), kWithNorm: of.withNorm, kBiased: false };
    return productVariant("quantise", of, constant, {
      hasVectors: of.withNorm,
      hasLanes: false,
      unused: [Binding.step, Binding.data, Binding.scale],
      kernel: [inputsBlocks, quantise],
    });
  },
  moeDown(of: ProductVariant): Variant {
    const { lanes } = of.arithmetic;
    const isSerial = lanes === "serial";
    const kernel = hasIntegerInputs(of) ? moeDownBlocks : moeDown;
    return productVariant("moe_down", of, { ...orderOf(of), kBiased: of.biased }, {
      hasVectors: of.biased,
      unused: [Binding.step],
      kernel: [isSerial ? moeDownSerial : kernel],
    });
  },
  embed(dtype: number): Variant {
    const parts = [common, values, dotEight, ...weights(dtype, "floats"), embed];
    return variant(`embed dtype ${dtype}`, {}, ...parts);
  },
  moePart: (): Variant => variant("moe_part", {}, common, values, moePart),
  moeRoute: (): Variant => variant("moe_route", {}, common, values, moeRoute),
  norm: (): Variant => variant("norm", {}, common, values, reduce, norm),
  elementwise: (): Variant => variant("elementwise", {}, common, values, activation, elementwise),
  heads(kvIsF32: boolean): Variant {
    const parts = [common, values, kvIsF32 ? kvF32 : kvF16, head, qkNormRope];
    return variant(kvIsF32 ? "heads kv f32" : "heads kv f16", { kHeads: 1 }, ...parts);
  },
  // `isFused`: with what `heads` does, for a single row.
  attention(kvIsF32: boolean, isSplit: boolean, isFused: boolean): Variant {
    const shared = [common, values, activation, head, attentionMerge, reduce];
    const parts = [...shared, kvIsF32 ? kvF32 : kvF16, attention];
    const constant = { kSplit: isSplit, kFused: isFused, kHeads: 3, kBatch: 16 };
    return variant(`attention kv ${kvIsF32 ? "f32" : "f16"}`, constant, ...parts);
  },
  // Several rows; `columns`: of a head.
  attentionRows(kvIsF32: boolean, columns: number): Variant {
    const shared = [common, values, activation, head, attentionMerge, attentionSessions];
    const name = `attention of rows kv ${kvIsF32 ? "f32" : "f16"}`;
    if (isTiledHead(columns)) {
      const constant = { kHeads: 3, kPairs: columns / 2, kFour: 4, kMergeRounds: 8 };
      const pages = kvIsF32 ? kvTilesF32 : kvTilesF16;
      return variant(`${name} in tiles`, constant, ...shared, pages, attentionTiles);
    }
    const constant = {
      kHeads: 3,
      kQueries: tileQueriesOf(columns),
      kMaxPairs: Math.ceil(columns / 2),
    };
    return variant(name, constant, ...shared, kvIsF32 ? kvF32 : kvF16, attentionRows);
  },
  attentionCombine: (): Variant =>
    variant(
      "attention_combine",
      { kHeads: 3 },
      common,
      values,
      head,
      attentionMerge,
      attentionCombine,
    ),
  argmax: (isMerge: boolean): Variant =>
    variant("argmax", { kMerge: isMerge }, common, values, reduce, argmax),
  topK: (): Variant => variant("top_k", {}, common, values, topK),
  scaledSum: (): Variant => variant("scaled_sum", {}, common, values, reduce, scaledSum),
  check: (): Variant => ({ key: "check", code: check, bindings: kAllBindings }),
  unpack: (): Variant => ({ key: "unpack", code: unpack, bindings: kAllBindings }),
  repack: (): Variant => ({ key: "repack", code: repack, bindings: kAllBindings }),
  sample(name: keyof typeof sampling): Variant {
    return variant(`sample_${name}`, {}, sample, sampling[name]);
  },
} as const;
