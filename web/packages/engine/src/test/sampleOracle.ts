// Sampling from whole rows of logits in doubles, after the definitions in src/text/sampler.h:
// sorting, running sums, one number of Philox-4x32-10. Tests only.
import type { Sampling } from "../stageEngine.ts";

const kMask = 0xffffffffn;

// The first two words of Philox for (position, draw), as base/random.h has them.
function philox(seed: bigint, position: bigint, draw: bigint): [bigint, bigint] {
  let counter = [position & kMask, position >> 32n, draw, 0n] as [bigint, bigint, bigint, bigint];
  let key = [seed & kMask, (seed >> 32n) & kMask] as [bigint, bigint];
  for (let round = 0; round < 10; ++round) {
    const a = 0xd2511f53n * counter[0];
    const b = 0xcd9e8d57n * counter[2];
    counter = [(b >> 32n) ^ counter[1] ^ key[0], b & kMask, (a >> 32n) ^ counter[3] ^ key[1],
      a & kMask];
    key = [(key[0] + 0x9e3779b9n) & kMask, (key[1] + 0xbb67ae85n) & kMask];
  }
  return [counter[0], counter[1]];
}

// 24 bits of it.
export function counterUniform(seed: bigint, position: number, draw = 0): number {
  return Number(philox(seed, BigInt(position), BigInt(draw))[0] >> 8n) / 2 ** 24;
}

// 53 bits of it.
export function counterDouble(seed: bigint, position: number, draw = 0): number {
  const [first, second] = philox(seed, BigInt(position), BigInt(draw));
  return Number((first << 21n) | (second >> 11n)) / 2 ** 53;
}

export interface Drawn {
  readonly token: number;
  // How far the number drawn and the cuts were from giving another token, as a share of the mass.
  readonly margin: number;
}

function changed(logits: Float32Array, sampling: Sampling): Float64Array {
  return Float64Array.from(logits, (raw, id) => {
    let logit = raw + (sampling.logitBias.get(id) ?? 0);
    const count = sampling.seen.get(id) ?? 0;
    if (count === 0) return logit;
    logit = logit > 0 ? logit / sampling.repetitionPenalty : logit * sampling.repetitionPenalty;
    return logit - sampling.presencePenalty - sampling.frequencyPenalty * count;
  });
}

export function drawToken(logits: Float32Array, sampling: Sampling, position: number): Drawn {
  const values = changed(logits, sampling);
  const sorted = [...values.keys()].sort((a, b) => values[b]! - values[a]! || a - b);
  if (sampling.temperature === 0) {
    const gap = sorted.length > 1 ? values[sorted[0]!]! - values[sorted[1]!]! : 1;
    return { token: sorted[0]!, margin: gap };
  }
  const best = values[sorted[0]!]!;
  const weights = sorted.map((id) => Math.exp((values[id]! - best) / sampling.temperature));
  let kept = sampling.topK > 0 ? Math.min(sampling.topK, sorted.length) : sorted.length;
  let margin = 1;
  const sumOf = (count: number): number => weights.slice(0, count).reduce((a, b) => a + b, 0);
  const whole = sumOf(kept);
  let afterTopP = kept;
  if (sampling.topP < 1) {
    let sum = 0;
    for (afterTopP = 0; afterTopP < kept; ) {
      sum += weights[afterTopP++]!;
      margin = Math.min(margin, Math.abs(sum / whole - sampling.topP));
      if (sum >= sampling.topP * whole) break;
    }
  }
  if (sampling.minP > 0) {
    margin = Math.min(margin, ...weights.slice(0, 2000).map((w) => Math.abs(w - sampling.minP)));
    const fewer = weights.findIndex((weight) => weight < sampling.minP);
    kept = fewer < 0 ? kept : Math.min(kept, fewer);
  }
  kept = Math.min(kept, afterTopP);
  const total = sumOf(kept);
  const target = counterDouble(sampling.seed, position) * total;
  let sum = 0;
  for (let place = 0; ; ++place) {
    const before = sum;
    sum += weights[place]!;
    if (sum <= target && place + 1 < kept) continue;
    margin = Math.min(margin, (sum - target) / total, (target - before) / total || 1);
    return { token: sorted[place]!, margin };
  }
}
