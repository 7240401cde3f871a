// Sampling in whole-model decoding: what a generation asks for as the words that the kernels read
// (kernels/sample/), and which of their dispatches it needs. Order and meaning are those of
// sampling/draw.ts; the token is the one that the orchestrator would have drawn from the
// same logits, seed and position, up to f32 rounding at the boundaries.
import type { Dispatch } from "../dispatch/dispatch.ts";
import type { SampleDispatches } from "../dispatch/sampling.ts";
import { kSamplerWords, SamplerFlag, SamplerWord } from "../kernels/sample/sample.ts";
import { changesLogits, hasPenalties } from "../sampling/parameters.ts";
import type { Sampling } from "../sampling/parameters.ts";
import type { Machine } from "./machine.ts";

// Below, exp() of any difference but 0 is 0: greedy, but for equal logits.
const kMinTemperature = 1e-6;

// The dispatches behind the output head, in order.
export type Choice = readonly (readonly Dispatch[])[];

export function choiceOf(
  sampling: Sampling,
  argmax: readonly Dispatch[],
  sample: SampleDispatches,
): Choice {
  const choice: (readonly Dispatch[])[] = [];
  if (changesLogits(sampling)) choice.push(sample.change);
  choice.push(argmax);
  if (sampling.temperature > 0) {
    choice.push(sample.begin);
    if (sampling.topK > 0) choice.push(sample.topK);
    if (Math.fround(sampling.topP) < 1) choice.push(sample.topP);
    if (sampling.minP > 0) choice.push(sample.minP);
    choice.push(sample.draw);
  }
  choice.push(sample.pick);
  return choice;
}

// The words in front of a count and a bias for each token, bins empty.
function hostWords(sampling: Sampling): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(kSamplerWords);
  const floats = new Float32Array(words.buffer);
  const isGreedy = sampling.temperature === 0;
  const temperature = Math.max(Math.fround(sampling.temperature), kMinTemperature);
  floats[SamplerWord.inverseTemperature] = 1 / temperature;
  words[SamplerWord.topKLast] = Math.max(sampling.topK, 1) - 1;
  // A top_p of 1, which cuts nothing, becomes 0.
  words[SamplerWord.topPPart] = Math.fround(sampling.topP) * 2 ** 32;
  floats[SamplerWord.minP] = sampling.minP;
  words[SamplerWord.seed] = Number(BigInt.asUintN(32, sampling.seed));
  words[SamplerWord.seed + 1] = Number(BigInt.asUintN(32, sampling.seed >> 32n));
  floats[SamplerWord.repetition] = sampling.repetitionPenalty;
  floats[SamplerWord.presence] = sampling.presencePenalty;
  floats[SamplerWord.frequency] = sampling.frequencyPenalty;
  words[SamplerWord.flags] =
    (isGreedy ? SamplerFlag.greedy : 0) + (hasPenalties(sampling) ? SamplerFlag.counted : 0);
  return words;
}

export type SamplerTarget = Pick<Machine, "buffers" | "layout" | "aux">;

// Sets the sampler up for one generation, whatever the one before left.
export function writeSampler(to: SamplerTarget, vocabulary: number, sampling: Sampling): void {
  const { queue } = to.buffers.gpu.device;
  const at = 4 * to.layout.aux.samplerAt;
  queue.writeBuffer(to.aux, at, hostWords(sampling));
  if (!changesLogits(sampling)) return;
  const counts = new Uint32Array(2 * vocabulary);
  const biases = new Float32Array(counts.buffer, 4 * vocabulary);
  if (hasPenalties(sampling)) for (const [token, count] of sampling.seen) counts[token] = count;
  for (const [token, bias] of sampling.logitBias) biases[token] = bias;
  queue.writeBuffer(to.aux, at + 4 * kSamplerWords, counts);
}
