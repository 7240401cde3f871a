// What biases and penalties make of a row of logits: the numbers of src/sampling/penalize.h.
//
//   logit' = logit + bias
//   logit" = logit' / repetition where logit' > 0, else logit' * repetition; of seen tokens only
//   logit" - frequency * count - presence
//
// With repetition 2, presence 0.5 and frequency 0.25 a token that was seen three times falls from
// 4 to 4 / 2 - 0.25 * 3 - 0.5 = 0.75, and one that stood at -1 to -1 * 2 - 0.75 - 0.5 = -3.25.
import { hasPenalties } from "./parameters.ts";
import type { Sampling } from "./parameters.ts";

// Computes in f32, step by step, as the other engines do. Tokens outside the vocabulary are
// ignored.
export function penalized(logits: Float32Array, sampling: Sampling): Float32Array {
  const changed = logits.slice();
  const { fround } = Math;
  for (const [token, bias] of sampling.logitBias) {
    if (token < changed.length) changed[token] = changed[token]! + fround(bias);
  }
  if (!hasPenalties(sampling)) return changed;
  const repetition = fround(sampling.repetitionPenalty);
  const presence = fround(sampling.presencePenalty);
  const frequency = fround(sampling.frequencyPenalty);
  for (const [token, count] of sampling.seen) {
    if (token >= changed.length || count === 0) continue;
    const logit = changed[token]!;
    const repeated = fround(logit > 0 ? logit / repetition : logit * repetition);
    changed[token] = fround(repeated - fround(frequency * count)) - presence;
  }
  return changed;
}
