// Tokens drawn on the GPU against those of src/text/sampler.cc (tests/golden/sampler.json), against
// an oracle in doubles, and against the distribution itself.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import { counterDouble } from "./random.ts";
import { kGreedy } from "./run/sampling.ts";
import type { Sampling } from "./stageEngine.ts";
import { openNodeGpu } from "./test/nodeGpu.ts";
import { counterUniform, drawToken } from "./test/sampleOracle.ts";
import { SampleRig } from "./test/sampleRig.ts";

interface GoldenCase {
  vocabulary: number;
  logits_seed: number;
  spread: number;
  levels: number;
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
  repetition_penalty: number;
  presence_penalty: number;
  frequency_penalty: number;
  logit_bias: [number, number][];
  history: number[];
  seed: string;
  first_position: number;
  count: number;
  tokens: number[];
}

const path = new URL("../../../../tests/golden/sampler.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(fileURLToPath(path), "utf8")) as { cases: GoldenCase[] };
// f32 against doubles: the exponential is good to some 1e-6.
const kRounding = 1e-5;

// As sampler_golden_test.cc makes them.
function logitsOf(golden: GoldenCase): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: golden.vocabulary }, (_, id) => {
    const uniform = counterUniform(BigInt(golden.logits_seed), id);
    const square = Math.fround(uniform * uniform);
    const logit = Math.fround(Math.fround(square * square) * golden.spread);
    return golden.levels > 0 ? Math.floor(logit * golden.levels) / golden.levels : logit;
  });
}

function samplingOf(golden: GoldenCase): Sampling {
  const seen = new Map<number, number>();
  for (const id of golden.history) seen.set(id, (seen.get(id) ?? 0) + 1);
  return {
    temperature: Math.fround(golden.temperature),
    topK: golden.top_k,
    topP: Math.fround(golden.top_p),
    minP: Math.fround(golden.min_p),
    seed: BigInt(golden.seed),
    repetitionPenalty: Math.fround(golden.repetition_penalty),
    presencePenalty: Math.fround(golden.presence_penalty),
    frequencyPenalty: Math.fround(golden.frequency_penalty),
    logitBias: new Map(golden.logit_bias),
    seen,
  };
}

// Falling by a quarter from token to token, in another order.
const kSlope = Float32Array.from({ length: 257 }, (_, id) => -0.25 * ((id * 37) % 257));

const describeCase = ({ tokens: _, logits_seed: __, history: ___, ...rest }: GoldenCase): string =>
  JSON.stringify(rest);
const positionsOf = ({ first_position: first, count }: GoldenCase): number[] =>
  Array.from({ length: count }, (_, i) => first + i);

describe("the oracle", { timeout: 120_000 }, () => {
  it.each(cases.map((golden) => [describeCase(golden), golden] as const))(
    "draws what src/text draws: %s",
    (_, golden) => {
      const logits = logitsOf(golden);
      const sampling = samplingOf(golden);
      const drawn = positionsOf(golden).map((at) => drawToken(logits, sampling, at).token);
      expect(drawn).toEqual(golden.tokens);
    },
  );

  // Pearson's statistic of what 4,000 positions draw; its mean is the degrees of freedom, its
  // variance twice that.
  it.each<[string, Partial<Sampling>]>([
    ["all tokens", { temperature: 1.5 }],
    ["what the cuts leave", { topK: 40, topP: 0.95, minP: 0.01 }],
  ])("follows the distribution: %s", (_, change) => {
    const sampling = { ...kGreedy, temperature: 1, seed: 11n, ...change };
    const draws = 4_000;
    const counts = new Map<number, number>();
    for (let position = 1; position <= draws; ++position) {
      const { token } = drawToken(kSlope, sampling, position);
      counts.set(token, (counts.get(token) ?? 0) + 1);
    }
    const probabilities = probabilitiesOf(kSlope, sampling);
    for (const token of counts.keys()) expect(probabilities.get(token)).toBeGreaterThan(0);
    let statistic = 0;
    let cells = 0;
    for (const [token, probability] of probabilities) {
      const expected = draws * probability;
      if (expected < 8) continue;
      statistic += ((counts.get(token) ?? 0) - expected) ** 2 / expected;
      ++cells;
    }
    expect(cells).toBeGreaterThan(10);
    expect(statistic).toBeLessThan(cells + 4 * Math.sqrt(2 * cells));
  });
});

const gpu = await openNodeGpu();
const rigs = new Map<number, SampleRig>();

async function rigOf(vocabulary: number): Promise<SampleRig> {
  const rig = rigs.get(vocabulary) ?? (await SampleRig.make(gpu!, vocabulary));
  rigs.set(vocabulary, rig);
  return rig;
}

describe.skipIf(!gpu)("the sampling kernels", { timeout: 600_000 }, () => {
  it.each(cases.map((golden) => [describeCase(golden), golden] as const))(
    "draw what src/text draws: %s",
    async (_, golden) => {
      const rig = await rigOf(golden.vocabulary);
      const logits = logitsOf(golden);
      const sampling = samplingOf(golden);
      const positions = positionsOf(golden);
      // With penalties one at a time: the cases draw each position with the same history.
      const isCounting = golden.repetition_penalty !== 1 || golden.presence_penalty !== 0;
      const groups = isCounting ? positions.map((position) => [position]) : [positions];
      const drawn: number[] = [];
      for (const group of groups) drawn.push(...(await rig.draw(logits, sampling, group)));
      for (const [index, token] of drawn.entries()) {
        if (token === golden.tokens[index]) continue;
        const { margin } = drawToken(logits, sampling, positions[index]!);
        expect(margin, `position ${positions[index]} gave ${token}`).toBeLessThan(kRounding);
      }
    },
  );

});

describe.skipIf(!gpu)("the sampling kernels, further", { timeout: 600_000 }, () => {
  it("count what they drew, and leave nothing behind for the next generation", async () => {
    const golden = cases.find(({ frequency_penalty: penalty }) => penalty > 0)!;
    const rig = await rigOf(golden.vocabulary);
    const logits = logitsOf(golden);
    const sampling = { ...samplingOf(golden), frequencyPenalty: 2, topK: 30 };
    const positions = Array.from({ length: 16 }, (_, i) => 100 + i);
    const seen = new Map(sampling.seen);
    const expected = positions.map((position) => {
      const { token, margin } = drawToken(logits, { ...sampling, seen }, position);
      expect(margin).toBeGreaterThan(kRounding); // else take another seed
      seen.set(token, (seen.get(token) ?? 0) + 1);
      return token;
    });
    expect(new Set(expected).size).toBeGreaterThan(5);
    for (let time = 0; time < 2; ++time) {
      expect(await rig.draw(logits, sampling, positions)).toEqual(expected);
    }
    const greedy = { ...sampling, temperature: 0 };
    const [first, second] = await rig.draw(logits, greedy, [1, 2]);
    expect(first).toBe(drawToken(logits, greedy, 1).token);
    expect(second).not.toBe(first); // 2 less
    const plain = { ...kGreedy, temperature: 1, seed: 5n };
    const [free] = await rig.draw(logits, plain, [7]);
    expect(free).toBe(drawToken(logits, plain, 7).token);
  });

  it("draw the oracle's tokens, one after another", async () => {
    const rig = await rigOf(257);
    const sampling = { ...kGreedy, temperature: 1.2, topP: 0.97, minP: 0.001, seed: 11n };
    const positions = Array.from({ length: 24 }, (_, i) => 1 + i);
    const expected = positions.map((at) => drawToken(kSlope, sampling, at).token);
    expect(await rig.draw(kSlope, sampling, positions)).toEqual(expected);
  });

  it("give no token for a row with values that are not finite", async () => {
    const rig = await rigOf(257);
    const logits = new Float32Array(257).fill(1);
    logits[200] = NaN;
    const sampling = { ...kGreedy, temperature: 1 };
    expect(await rig.draw(logits, sampling, [1])).toEqual([0xffffffff]);
    logits[200] = 1;
    const tokens = await rig.draw(logits, sampling, [1, 2, 3]);
    // All equal: the token is the number drawn, in order of ids.
    expect(tokens).toEqual([1, 2, 3].map((at) => Math.floor(counterDouble(0n, at, 0) * 257)));
  });
});

// By the definitions: cut after sorting, then the shares of what is left.
function probabilitiesOf(logits: Float32Array, sampling: Sampling): Map<number, number> {
  const sorted = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b);
  const weights = sorted.map((id) =>
    Math.exp((logits[id]! - logits[sorted[0]!]!) / sampling.temperature),
  );
  let kept = sampling.topK > 0 ? Math.min(sampling.topK, sorted.length) : sorted.length;
  const whole = weights.slice(0, kept).reduce((a, b) => a + b, 0);
  let sum = 0;
  for (let place = 0; place < kept; ++place) {
    if (sum >= sampling.topP * whole || weights[place]! < sampling.minP) kept = place;
    else sum += weights[place]!;
  }
  return new Map(sorted.slice(0, kept).map((id, place) => [id, weights[place]! / sum]));
}
