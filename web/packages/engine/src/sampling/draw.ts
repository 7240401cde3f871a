// Drawing a token from all logits: the rules of src/sampling/draw.h, so that the same number gives
// the same token on every engine.
//
// The tokens stand in line by falling logit, equal logits by rising id, each as long as its weight
// exp((logit - best) / temperature). top_k keeps the first k; top_p of these the shortest beginning
// of the line with at least that share of their mass; min_p of these the tokens with at least that
// share of the best one's weight, which is 1. The token that covers the point `uniform` of what is
// left is the one. With weights 1, 0.5, 0.25, 0.25 and top_p 0.7: 1 + 0.5 reach 0.7 * 2 = 1.4, so
// two are left, and `uniform` 0.8 points at 1.2 of 1.5: the second.
import type { Sampling } from "./parameters.ts";
import { selectTop } from "./selectTop.ts";

// Ids by falling logit, equal logits by rising id. A key of 53 bits holds both and sorts fast.
function fallingIds(logits: Float32Array): Uint32Array {
  const bits = new Uint32Array(logits.slice().buffer);
  const keys = new Float64Array(logits.length);
  for (let id = 0; id < logits.length; ++id) {
    const word = bits[id] === 0x80000000 ? 0 : bits[id]!; // -0 is 0
    const falling = word >= 0x80000000 ? word : 0x7fffffff - word;
    keys[id] = falling * 2 ** 21 + id;
  }
  keys.sort();
  return Uint32Array.from(keys, (key) => key % 2 ** 21);
}

// How many of the tokens of these falling weights may be drawn.
function keptOf(weights: Float64Array, { topK, topP, minP }: Sampling): number {
  let kept = topK > 0 ? Math.min(topK, weights.length) : weights.length;
  const share = Math.fround(topP);
  if (share < 1) {
    let sum = 0;
    for (let rank = 0; rank < kept; ++rank) sum += weights[rank]!;
    const wanted = share * sum;
    let count = 0;
    let first = 0;
    do first += weights[count++]!;
    while (count < kept && first < wanted);
    kept = count;
  }
  const least = Math.fround(minP);
  if (least <= 0) return kept;
  let count = 0;
  while (count < kept && weights[count]! >= least) ++count;
  return count;
}

// The token at `uniform`, in [0, 1), of what is kept. REQUIRES: `logits` after penalties.
export function draw(logits: Float32Array, sampling: Sampling, uniform: number): number {
  const temperature = Math.fround(sampling.temperature);
  if (temperature === 0) return selectTop(logits, 1).candidates[0]!.tokenId;
  const ids = fallingIds(logits);
  const best = logits[ids[0]!]!;
  const weights = Float64Array.from(ids, (id) => Math.exp((logits[id]! - best) / temperature));
  const kept = keptOf(weights, sampling);
  let sum = 0;
  for (let rank = 0; rank < kept; ++rank) sum += weights[rank]!;
  const target = uniform * sum;
  let passed = 0;
  for (let rank = 0; rank + 1 < kept; ++rank) {
    passed += weights[rank]!;
    if (passed > target) return ids[rank]!;
  }
  return ids[kept - 1]!;
}
