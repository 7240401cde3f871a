// The kernels that draw a token from a row of logits: dispatch/sampling.ts has their order.
import { declareOp } from "../common/op.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import sample from "./fragments/sample.wgsl?raw";
import sampleChange from "./sample_change.wgsl?raw";
import sampleHistogram from "./sample_histogram.wgsl?raw";
import sampleMinP from "./sample_min_p.wgsl?raw";
import samplePick from "./sample_pick.wgsl?raw";
import sampleScan from "./sample_scan.wgsl?raw";

// Of a search among the sorted tokens.
export const SamplePurpose = { topK: 0, topP: 1, draw: 2 } as const;

export const sampleOp = declareOp({
  rowsAt: "u32",
  logitsBase: "u32",
  vocabulary: "u32",
  resultAt: "u32", // in `aux`: what argmax.wgsl left for row 0
  chainAt: "u32",
  historyAt: "u32",
  samplerAt: "u32", // in `aux`
  level: "u32", // of a search: bits [24 - 8 level, 32 - 8 level) of the key
  purpose: "u32", // of a search: SamplePurpose
});

const entries = {
  change: sampleChange,
  histogram: sampleHistogram,
  minP: sampleMinP,
  pick: samplePick,
  scan: sampleScan,
} as const;

export type SampleKernel = keyof typeof entries;

export function sampleKernel(name: SampleKernel): Variant {
  return variant({ name: `sample_${name}`, op: sampleOp, parts: [sample, entries[name]] });
}
