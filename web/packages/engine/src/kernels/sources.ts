// The WGSL of every pipeline: which files it is made of and which constants stand before them. A
// variant's key names its pipeline in gpu/pipelines.ts.
import { Binding } from "../gpu/bindings.ts";
import { DType } from "../program/ir.ts";
import { repeated } from "./repeat.ts";
import activation from "./activation.wgsl?raw";
import argmax from "./argmax.wgsl?raw";
import attention from "./attention.wgsl?raw";
import attentionCombine from "./attention_combine.wgsl?raw";
import attentionRows from "./attention_rows.wgsl?raw";
import attentionMerge from "./attention_merge.wgsl?raw";
import check from "./check.wgsl?raw";
import common from "./common.wgsl?raw";
import dotEight from "./dot_eight.wgsl?raw";
import dotHalves from "./dot_halves.wgsl?raw";
import dotQ4Floats from "./dot_q4_floats.wgsl?raw";
import dotQ4Integers from "./dot_q4_integers.wgsl?raw";
import dotQ8Floats from "./dot_q8_floats.wgsl?raw";
import dotQ8Integers from "./dot_q8_integers.wgsl?raw";
import elementwise from "./elementwise.wgsl?raw";
import embed from "./embed.wgsl?raw";
import head from "./head.wgsl?raw";
import inputsDirect from "./inputs_direct.wgsl?raw";
import inputsPlanes from "./inputs_planes.wgsl?raw";
import integers from "./integers.wgsl?raw";
import kvF16 from "./kv_f16.wgsl?raw";
import kvF32 from "./kv_f32.wgsl?raw";
import lanesShared from "./lanes_shared.wgsl?raw";
import lanesSubgroups from "./lanes_subgroups.wgsl?raw";
import matvec from "./matvec.wgsl?raw";
import moeDown from "./moe_down.wgsl?raw";
import moePart from "./moe_part.wgsl?raw";
import moeRoute from "./moe_route.wgsl?raw";
import norm from "./norm.wgsl?raw";
import product from "./product.wgsl?raw";
import qkNormRope from "./qk_norm_rope.wgsl?raw";
import quads from "./quads.wgsl?raw";
import quantise from "./quantise.wgsl?raw";
import reduce from "./reduce.wgsl?raw";
import repack from "./repack.wgsl?raw";
import rowsMany from "./rows_many.wgsl?raw";
import rowsOne from "./rows_one.wgsl?raw";
import scaledSum from "./scaled_sum.wgsl?raw";
import sample from "./sample.wgsl?raw";
import sampleChange from "./sample_change.wgsl?raw";
import sampleHistogram from "./sample_histogram.wgsl?raw";
import sampleMinP from "./sample_min_p.wgsl?raw";
import samplePick from "./sample_pick.wgsl?raw";
import sampleScan from "./sample_scan.wgsl?raw";
import scalesBlocks from "./scales_blocks.wgsl?raw";
import scalesNone from "./scales_none.wgsl?raw";
import topK from "./top_k.wgsl?raw";
import unpack from "./unpack.wgsl?raw";
import values from "./values.wgsl?raw";
import vectors from "./vectors.wgsl?raw";
import vectorsNone from "./vectors_none.wgsl?raw";
import weightsBf16 from "./weights_bf16.wgsl?raw";
import weightsF16 from "./weights_f16.wgsl?raw";
import weightsF32 from "./weights_f32.wgsl?raw";
import weightsQ4 from "./weights_q4.wgsl?raw";
import weightsQ8 from "./weights_q8.wgsl?raw";

export interface Variant {
  readonly key: string;
  readonly code: string;
  readonly bindings: readonly number[]; // what the kernel uses of the common ones
  // Runs in its place where the driver refuses it: the same bindings, parameters and grid.
  readonly simpler?: Variant;
}

// How products are computed.
export interface Arithmetic {
  // Inputs of q4 and q8 products as 16-bit integers (integers.wgsl); else everything in f32.
  readonly integers: boolean;
  // Lanes are summed by subgroup shuffles; the bits are the same without.
  readonly subgroups: boolean;
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

export interface QuantiseVariant extends Omit<ProductVariant, "biased"> {
  readonly withNorm: boolean;
}

export function hasIntegerInputs({
  dtype,
  arithmetic,
}: Pick<ProductVariant, "dtype" | "arithmetic">): boolean {
  return arithmetic.integers && (dtype === DType.q4 || dtype === DType.q8);
}

// Where 8 weights of 8 rows come from, and their products with 8 inputs.
function weights(dtype: number, isInteger: boolean): string[] {
  switch (dtype) {
    case DType.q4:
      return isInteger
        ? [integers, weightsQ4, dotQ4Integers, scalesBlocks]
        : [weightsQ4, dotQ4Floats, scalesBlocks];
    case DType.q8:
      return isInteger
        ? [integers, weightsQ8, dotQ8Integers, scalesBlocks]
        : [weightsQ8, dotQ8Floats, scalesBlocks];
    case DType.f16:
      return [weightsF16, dotHalves, scalesNone];
    case DType.bf16:
      return [weightsBf16, dotHalves, scalesNone];
    default:
      return [weightsF32, scalesNone];
  }
}

type Products = Pick<ProductVariant, "dtype" | "arithmetic">;

interface ProductSources {
  readonly inputs: readonly string[];
  readonly hasVectors: boolean; // weights of a norm, or biases
  readonly unused: readonly number[];
  readonly kernel: readonly string[];
}

function productParts(of: Products, { inputs, hasVectors, kernel }: ProductSources): string[] {
  const lanes = of.arithmetic.subgroups ? lanesSubgroups : lanesShared;
  const read = hasVectors ? vectors : vectorsNone;
  const own = weights(of.dtype, of.arithmetic.integers);
  return [common, quads, read, dotEight, ...own, activation, product, lanes, ...inputs, ...kernel];
}

function productName(name: string, of: Products): string {
  return `${name} dtype ${of.dtype} ${hasIntegerInputs(of) ? "integers" : "floats"}`;
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

// Shuffles that a driver refuses give way to workgroup memory.
function productVariant(
  name: string,
  of: Products,
  constant: Record<string, number | boolean>,
  sources: ProductSources,
): Variant {
  const { arithmetic } = of;
  const full = `${productName(name, of)} ${arithmetic.subgroups ? "subgroups" : "shared"}`;
  const made = variantWithout(sources.unused, full, constant, ...productParts(of, sources));
  if (!arithmetic.subgroups) return made;
  const plain = { ...of, arithmetic: { ...arithmetic, subgroups: false } };
  const simpler = productVariant(name, plain, constant, sources);
  return { ...made, code: `enable subgroups;\n${made.code}`, simpler };
}

export const kTileQueries = 4; // of attentionRows; more gain nothing on an H200

// Kernels that give the bindings names of their own.
const kAllBindings = [0, 1, 2, 3, 4, 5, 6, 7];

export const kernels = {
  matvec(of: MatVecVariant): Variant {
    const { parts, tileRows, withNorm, paired, experts, biased } = of;
    const isMany = tileRows > 1 || experts;
    // Integers of several rows come from `quantise`.
    const isQuantised = tileRows > 1 && hasIntegerInputs(of);
    const constant = {
      kParts: parts,
      kTileRows: tileRows,
      kWithNorm: withNorm,
      kPaired: paired,
      kExperts: experts,
      kBiased: biased,
    };
    return productVariant("matvec", of, constant, {
      inputs: [isQuantised ? inputsPlanes : inputsDirect],
      hasVectors: (withNorm && !isQuantised) || biased,
      unused: isMany ? [] : [Binding.step],
      kernel: [isMany ? rowsMany : rowsOne, matvec],
    });
  },
  // Of the integers that `matvec` reads for several rows.
  quantise(of: QuantiseVariant): Variant {
    const constant = { kParts: of.parts, kWithNorm: of.withNorm, kBiased: false };
    return productVariant("quantise", of, constant, {
      inputs: [inputsDirect],
      hasVectors: of.withNorm,
      unused: [Binding.step, Binding.data, Binding.scale],
      kernel: [quantise],
    });
  },
  moeDown(of: ProductVariant): Variant {
    return productVariant("moe_down", of, { kParts: of.parts, kBiased: of.biased }, {
      inputs: [],
      hasVectors: of.biased,
      unused: [Binding.step],
      kernel: [moeDown],
    });
  },
  embed(dtype: number): Variant {
    const parts = [common, values, dotEight, ...weights(dtype, false), embed];
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
    const shared = [common, values, activation, head, attentionMerge];
    const parts = [...shared, kvIsF32 ? kvF32 : kvF16, attentionRows];
    const constant = { kHeads: 3, kQueries: kTileQueries, kMaxPairs: Math.ceil(columns / 2) };
    return variant(`attention of rows kv ${kvIsF32 ? "f32" : "f16"}`, constant, ...parts);
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
