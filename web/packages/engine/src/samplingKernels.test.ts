// Tokens drawn on the GPU against the golden ones, which C++ and TypeScript give too, against an
// oracle in doubles, and against the distribution itself.
//
// Of the golden cases every one runs on the GPU, but only the first kPositions of its positions:
// further ones take the same way through the same kernels with another number drawn. The oracle is
// compared with the small vocabularies alone: a large one has it sort more, and nothing else.
import { describe, expect, it } from "vitest";

import { counterDouble } from "./sampling/random.ts";
import { hasPenalties } from "./sampling/parameters.ts";
import type { Sampling } from "./sampling/parameters.ts";
import { goldenDraws, kGreedy } from "./test/goldenDraws.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { drawToken } from "./test/sampleOracle.ts";
import { SampleRig } from "./test/sampleRig.ts";

const kPositions = 5;
const kSmallVocabulary = 1000;
// What f32 may differ from doubles by: the exponential is good to some 1e-6.
const kRounding = 1e-5;

// Falling by a quarter from token to token, in another order.
const kSlope = Float32Array.from({ length: 257 }, (_, id) => -0.25 * ((id * 37) % 257));

const named = goldenDraws.map((golden) => [golden.name, golden] as const);

describe("the oracle", { timeout: 120_000 }, () => {
  it.each(named.filter(([, { vocabulary }]) => vocabulary <= kSmallVocabulary))(
    "draws the golden tokens: %s",
    (_, { logits, sampling, positions, tokens }) => {
      const row = logits();
      const first = positions.slice(0, kPositions);
      const drawn = first.map((at) => drawToken(row, sampling, at).token);
      expect(drawn).toEqual(tokens.slice(0, kPositions));
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

const gpu = await sharedNodeGpu();
const rigs = new Map<number, SampleRig>();

async function rigOf(vocabulary: number): Promise<SampleRig> {
  const rig = rigs.get(vocabulary) ?? (await SampleRig.make(gpu!, vocabulary));
  rigs.set(vocabulary, rig);
  return rig;
}

describe.skipIf(!gpu)("the sampling kernels", { timeout: 600_000 }, () => {
  it.each(named)("draw the golden tokens: %s", async (_, golden) => {
    const { vocabulary, sampling, tokens } = golden;
    const rig = await rigOf(vocabulary);
    const logits = golden.logits();
    const positions = golden.positions.slice(0, kPositions);
    // With penalties they come one at a time: the cases draw each position with the same history.
    const isCounting = hasPenalties(sampling);
    const groups = isCounting ? positions.map((position) => [position]) : [positions];
    const drawn: number[] = [];
    for (const group of groups) drawn.push(...(await rig.draw(logits, sampling, group)));
    for (const [index, token] of drawn.entries()) {
      if (token === tokens[index]) continue;
      const { margin } = drawToken(logits, sampling, positions[index]!);
      expect(margin, `position ${positions[index]} gave ${token}`).toBeLessThan(kRounding);
    }
  });
});

describe.skipIf(!gpu)("the sampling kernels, further", { timeout: 600_000 }, () => {
  it("count what they drew, and leave nothing behind for the next Generate", async () => {
    const golden = goldenDraws.find(
      ({ vocabulary, sampling }) => vocabulary === 300 && sampling.frequencyPenalty > 0,
    )!;
    const rig = await rigOf(golden.vocabulary);
    const logits = golden.logits();
    const sampling = { ...golden.sampling, frequencyPenalty: 2, topK: 30 };
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

// The probabilities by the definitions: cut after sorting, then the shares of what is left.
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
