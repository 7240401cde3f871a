// Sampling in whole-model decoding: what a Generate asks for as the words that the kernels read
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

// What some row needs is dispatched for all of them; flags tell the others to leave it.
export function choiceOf(
  samplings: readonly Sampling[],
  argmax: readonly Dispatch[],
  sample: SampleDispatches,
): Choice {
  const some = (flag: number): boolean =>
    samplings.some((sampling) => (flagsOf(sampling) & flag) !== 0);
  const choice: (readonly Dispatch[])[] = [];
  if (some(SamplerFlag.changes)) choice.push(sample.change);
  choice.push(argmax);
  if (samplings.some(({ temperature }) => temperature > 0)) {
    choice.push(sample.begin);
    if (some(SamplerFlag.topK)) choice.push(sample.topK);
    if (some(SamplerFlag.topP)) choice.push(sample.topP);
    if (some(SamplerFlag.minP)) choice.push(sample.minP);
    choice.push(sample.draw);
  }
  choice.push(sample.pick);
  return choice;
}

function flagsOf(sampling: Sampling): number {
  const draws = sampling.temperature > 0;
  const flags: readonly (readonly [boolean, number])[] = [
    [!draws, SamplerFlag.greedy],
    [hasPenalties(sampling), SamplerFlag.counted],
    [changesLogits(sampling), SamplerFlag.changes],
    [draws && sampling.topK > 0, SamplerFlag.topK],
    [draws && Math.fround(sampling.topP) < 1, SamplerFlag.topP],
    [draws && sampling.minP > 0, SamplerFlag.minP],
  ];
  return flags.reduce((sum, [isSet, flag]) => sum + (isSet ? flag : 0), 0);
}

// The words in front of a count and a bias for each token, bins empty.
function hostWords(sampling: Sampling): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(kSamplerWords);
  const floats = new Float32Array(words.buffer);
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
  words[SamplerWord.flags] = flagsOf(sampling);
  return words;
}

// Of a Generate that takes the best raw token: where others of its batch are drawn, its sampler
// is asked, too.
export const kPlain: Sampling = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: new Map(),
  seen: new Map(),
  seed: 0n,
};

export type SamplerTarget = Pick<Machine, "buffers" | "layout" | "aux">;

// Sets a seat's sampler up for one Generate, whatever the one before left.
export function writeSampler(
  to: SamplerTarget,
  vocabulary: number,
  seat: number,
  sampling: Sampling,
): void {
  const { queue } = to.buffers.gpu.device;
  const { samplerAt, samplerStride } = to.layout.aux;
  const at = 4 * (samplerAt + seat * samplerStride);
  queue.writeBuffer(to.aux, at, hostWords(sampling));
  if (!changesLogits(sampling)) return;
  const counts = new Uint32Array(2 * vocabulary);
  const biases = new Float32Array(counts.buffer, 4 * vocabulary);
  if (hasPenalties(sampling)) for (const [token, count] of sampling.seen) counts[token] = count;
  for (const [token, bias] of sampling.logitBias) biases[token] = bias;
  queue.writeBuffer(to.aux, at + 4 * kSamplerWords, counts);
}
