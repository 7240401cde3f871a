// How a session samples, and what its rows of logits become: the same as src/engine/select.cc with
// src/kernels/penalize.cc and draw.cc, so that the same numbers give the same token.
import { selectTop } from "./select.ts";
import type { Candidate, Output, Sampling, Selection } from "./stageEngine.ts";

export function hasPenalties(sampling: Sampling): boolean {
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = sampling;
  return repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
}

export function changesLogits(sampling: Sampling): boolean {
  return hasPenalties(sampling) || sampling.logitBias.size > 0;
}

// What the sum that goes with candidates is scaled by. Greedy requests want the order alone: any
// temperature will do.
export function scaleOf(sampling: Sampling | undefined): number {
  const temperature = sampling?.temperature ?? 1;
  return temperature > 0 ? Math.min(1 / temperature, 1e30) : 1;
}

// Biases, then penalties, in f32 as the other engines compute them. Tokens outside the vocabulary
// are ignored.
function penalized(logits: Float32Array, sampling: Sampling): Float32Array {
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
function draw(logits: Float32Array, sampling: Sampling, uniform: number): number {
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

export type SelectingOutput = Extract<Output, { kind: "argmax" | "candidates" | "draw" }>;

// What a run asks of its last row of logits. REQUIRES: finite logits.
export function selectRow(logits: Float32Array, output: SelectingOutput): Selection {
  if (output.kind === "argmax") return selectTop(logits, 2);
  const { count, sampling } = output;
  const changed = sampling && changesLogits(sampling) ? penalized(logits, sampling) : logits;
  if (output.kind === "draw") {
    const tokenId = draw(changed, output.sampling, output.uniform);
    const { candidates, logsumexp } = selectTop(logits, Math.max(count, 1));
    const drawn: Candidate = { tokenId, logit: logits[tokenId]! };
    return { candidates: candidates.slice(0, count), logsumexp, drawn };
  }
  const { candidates, logsumexp } = selectTop(changed, count);
  const scale = scaleOf(sampling);
  const best = candidates[0]!.logit;
  const scaledSum = changed.reduce((sum, logit) => sum + Math.exp((logit - best) * scale), 0);
  const raw = changed === logits ? logsumexp : selectTop(logits, 1).logsumexp;
  return { candidates, logsumexp: raw, scaledSum };
}
