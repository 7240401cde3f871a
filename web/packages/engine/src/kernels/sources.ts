// The WGSL of every pipeline: which files it is made of and which constants stand before them. A
// variant's key names its pipeline in gpu/pipelines.ts.
import { DType } from "../program/ir.ts";
import activation from "./activation.wgsl?raw";
import argmax from "./argmax.wgsl?raw";
import attention from "./attention.wgsl?raw";
import attentionCombine from "./attention_combine.wgsl?raw";
import attentionMerge from "./attention_merge.wgsl?raw";
import check from "./check.wgsl?raw";
import common from "./common.wgsl?raw";
import elementwise from "./elementwise.wgsl?raw";
import embed from "./embed.wgsl?raw";
import kvF16 from "./kv_f16.wgsl?raw";
import kvF32 from "./kv_f32.wgsl?raw";
import matmul from "./matmul.wgsl?raw";
import matvec from "./matvec.wgsl?raw";
import moeDown from "./moe_down.wgsl?raw";
import moePart from "./moe_part.wgsl?raw";
import moeRoute from "./moe_route.wgsl?raw";
import norm from "./norm.wgsl?raw";
import product from "./product.wgsl?raw";
import qkNormRope from "./qk_norm_rope.wgsl?raw";
import reduce from "./reduce.wgsl?raw";
import repack from "./repack.wgsl?raw";
import scaledSum from "./scaled_sum.wgsl?raw";
import sample from "./sample.wgsl?raw";
import sampleChange from "./sample_change.wgsl?raw";
import sampleHistogram from "./sample_histogram.wgsl?raw";
import sampleMinP from "./sample_min_p.wgsl?raw";
import samplePick from "./sample_pick.wgsl?raw";
import sampleScan from "./sample_scan.wgsl?raw";
import topK from "./top_k.wgsl?raw";
import unpack from "./unpack.wgsl?raw";
import weightsBf16 from "./weights_bf16.wgsl?raw";
import weightsF16 from "./weights_f16.wgsl?raw";
import weightsF32 from "./weights_f32.wgsl?raw";
import weightsQ4 from "./weights_q4.wgsl?raw";
import weightsQ8 from "./weights_q8.wgsl?raw";

export interface Variant {
  readonly key: string;
  readonly code: string;
  // Runs in its place where the driver refuses it: the same bindings, parameters and grid.
  readonly simpler?: Variant;
}

export interface MatVecVariant {
  readonly dtype: number;
  readonly tileRows: number;
  readonly groups: number;
  readonly withNorm: boolean;
  readonly paired: boolean;
  readonly experts: boolean;
}

function weights(dtype: number): string {
  switch (dtype) {
    case DType.q4:
      return weightsQ4;
    case DType.q8:
      return weightsQ8;
    case DType.f16:
      return weightsF16;
    case DType.bf16:
      return weightsBf16;
    default:
      return weightsF32;
  }
}

function constants(values: Record<string, number | boolean>): string {
  return Object.entries(values)
    .map(([name, value]) => `const ${name} = ${value}${typeof value === "number" ? "u" : ""};\n`)
    .join("");
}

function variant(
  name: string,
  values: Record<string, number | boolean>,
  ...parts: string[]
): Variant {
  const key = [name, ...Object.values(values)].join(" ");
  return { key, code: [constants(values), ...parts].join("\n") };
}

const sampling = {
  change: sampleChange,
  histogram: sampleHistogram,
  minP: sampleMinP,
  pick: samplePick,
  scan: sampleScan,
} as const;

export const kernels = {
  matvec({ dtype, tileRows, groups, withNorm, paired, experts }: MatVecVariant): Variant {
    return variant(
      `matvec dtype ${dtype}`,
      {
        kTileRows: tileRows,
        kGroups: groups,
        kWithNorm: withNorm,
        kPaired: paired,
        kExperts: experts,
      },
      common,
      weights(dtype),
      activation,
      product,
      reduce,
      matvec,
    );
  },
  matmul(dtype: number, paired: boolean): Variant {
    const parts = [common, weights(dtype), activation, product, matmul];
    return variant(`matmul dtype ${dtype}`, { kPaired: paired }, ...parts);
  },
  moeDown(dtype: number): Variant {
    const parts = [common, weights(dtype), activation, product, moeDown];
    return variant(`moe_down dtype ${dtype}`, { kGroups: 2 }, ...parts);
  },
  embed(dtype: number): Variant {
    return variant(`embed dtype ${dtype}`, {}, common, weights(dtype), embed);
  },
  moePart: (): Variant => variant("moe_part", {}, common, moePart),
  moeRoute: (): Variant => variant("moe_route", {}, common, moeRoute),
  norm: (): Variant => variant("norm", {}, common, reduce, norm),
  elementwise: (): Variant => variant("elementwise", {}, common, activation, elementwise),
  heads(kvIsF32: boolean): Variant {
    const name = kvIsF32 ? "heads kv f32" : "heads kv f16";
    return variant(name, {}, common, kvIsF32 ? kvF32 : kvF16, qkNormRope);
  },
  attention(kvIsF32: boolean, isSplit: boolean): Variant {
    const parts = [common, activation, attentionMerge, reduce, kvIsF32 ? kvF32 : kvF16, attention];
    return variant(`attention kv ${kvIsF32 ? "f32" : "f16"}`, { kSplit: isSplit }, ...parts);
  },
  attentionCombine: (): Variant =>
    variant("attention_combine", {}, common, attentionMerge, attentionCombine),
  argmax: (isMerge: boolean): Variant =>
    variant("argmax", { kMerge: isMerge }, common, reduce, argmax),
  topK: (): Variant => variant("top_k", {}, common, topK),
  scaledSum: (): Variant => variant("scaled_sum", {}, common, reduce, scaledSum),
  sample(name: keyof typeof sampling): Variant {
    return variant(`sample_${name}`, {}, sample, sampling[name]);
  },
  check: (): Variant => variant("check", {}, check),
  unpack: (): Variant => variant("unpack", {}, unpack),
  repack: (): Variant => variant("repack", {}, repack),
} as const;
