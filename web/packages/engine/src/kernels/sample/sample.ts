// The kernels that draw a token from a row of logits: dispatch/sampling.ts has their order.
import { named } from "../common/numbers.ts";
import { declareOp } from "../common/op.ts";
import { variant } from "../common/variant.ts";
import type { Variant } from "../common/variant.ts";
import sample from "./fragments/sample.wgsl?raw";
import sampleChange from "./sample_change.wgsl?raw";
import sampleHistogram from "./sample_histogram.wgsl?raw";
import sampleMinP from "./sample_min_p.wgsl?raw";
import samplePick from "./sample_pick.wgsl?raw";
import sampleScan from "./sample_scan.wgsl?raw";

// What a search among the sorted tokens is for.
export const SamplePurpose = { topK: 0, topP: 1, draw: 2 } as const;

export const sampleOp = declareOp({
  rowsAt: "u32",
  logits: "place",
  vocabulary: "u32",
  resultAt: "u32", // in `aux`: what argmax.wgsl left, `resultStride` words a row
  resultStride: "u32",
  chainAt: "u32",
  historyAt: "u32",
  samplerAt: "u32", // in `aux`, `samplerStride` words a seat
  samplerStride: "u32",
  level: "u32", // of a search: bits [24 - 8 level, 32 - 8 level) of the key
  purpose: "u32", // of a search: SamplePurpose
});

// Words of a sampler in `aux`. The first ten are written by the host (dispatch/sampling.ts), the
// rest by the kernels; numbers of two words are 64-bit integers, low word first.
export const SamplerWord = {
  inverseTemperature: 0,
  topKLast: 1, // top_k - 1
  topPPart: 2, // top_p in units of 2^-32
  minP: 3,
  seed: 4, // two words
  repetition: 6,
  presence: 7,
  frequency: 8,
  flags: 9, // SamplerFlag
  mass: 16, // two words: of what the cuts have left; 0: no cut was made yet
  target: 18, // two words: what the running count or mass of a search must exceed
  prefix: 20, // the bytes of the key that the search has found
  beforeCount: 21, // how many tokens come before that prefix
  beforeMass: 22, // two words: their mass
  minPMass: 24, // two words
  rank: 26, // which of the tokens with the found key, by rising id
  smallestId: 27,
  bins: 32, // 256 of level 0, then 256 of the others
} as const;

// What a row's Generate asks for: rows of one step may ask for different things, and a dispatch
// that some of them need leaves the others as they are.
export const SamplerFlag = {
  greedy: 1,
  counted: 2,
  changes: 4,
  topK: 8,
  topP: 16,
  minP: 32,
} as const;

// A bin has count, mass (two words), one token's weight (two words), ~smallest id.
const kBinWords = 6;

// They stand in front of a count and a bias for each token.
export const kSamplerWords = SamplerWord.bins + 2 * 256 * kBinWords;

const numbers = [
  named("", { ...SamplerWord, binWords: kBinWords, stateWords: kSamplerWords }),
  named("Flag", SamplerFlag),
  named("Purpose", SamplePurpose),
].join("");

const entries = {
  change: sampleChange,
  histogram: sampleHistogram,
  minP: sampleMinP,
  pick: samplePick,
  scan: sampleScan,
} as const;

export type SampleKernel = keyof typeof entries;

export function sampleKernel(name: SampleKernel): Variant {
  return variant({
    name: `sample_${name}`,
    op: sampleOp,
    numbers,
    parts: [sample, entries[name]],
  });
}
