// Sampling from whole rows of logits in doubles, after the definitions in sampling/draw.ts:
// sorting, running sums, one number of random.ts. Tests only.
import { counterDouble } from "../sampling/random.ts";
import type { Sampling } from "../sampling/parameters.ts";

// 24 bits of the number, as tests/golden makes its logits.
export function counterUniform(seed: bigint, position: number, draw = 0): number {
  return Math.floor(counterDouble(seed, position, draw) * 2 ** 24) / 2 ** 24;
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
  const target = counterDouble(sampling.seed, position, 0) * total;
  let sum = 0;
  for (let place = 0; ; ++place) {
    const before = sum;
    sum += weights[place]!;
    if (sum <= target && place + 1 < kept) continue;
    margin = Math.min(margin, (sum - target) / total, (target - before) / total || 1);
    return { token: sorted[place]!, margin };
  }
}
