// How a session samples, in OpenAI's and Hugging Face's words, and what the parameters may be: the
// ranges of src/sampling/parameters.h. The rules of a draw: draw.ts.
import { EngineError } from "../base/error.ts";

// Neutral values change nothing.
export interface Sampling {
  readonly temperature: number; // 0: greedy
  readonly topK: number; // 0: all
  readonly topP: number; // keep the smallest set with this mass
  readonly minP: number; // drop tokens below minP times the best one's probability
  readonly repetitionPenalty: number; // 1: none
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly logitBias: ReadonlyMap<number, number>; // by token
  readonly seen: ReadonlyMap<number, number>; // how often a token stands in the session so far
  readonly seed: bigint; // 64 bits
}

export function hasPenalties(sampling: Sampling): boolean {
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = sampling;
  return repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
}

export function changesLogits(sampling: Sampling): boolean {
  return hasPenalties(sampling) || sampling.logitBias.size > 0;
}

// The best raw token is all that is wanted.
export function isPlain(sampling: Sampling): boolean {
  return sampling.temperature === 0 && !changesLogits(sampling);
}

// Throws EngineError (invalid_argument) with the field that is out of range.
export function checkSampling(sampling: Sampling, vocabulary: number): void {
  const check = (name: string, value: number, least: number, most: number): void => {
    if (value >= least && value <= most) return;
    throw new EngineError(
      "invalid_argument",
      `${name} is ${value}; expected ${least} to ${most}.`,
    );
  };
  check("temperature", sampling.temperature, 0, 2);
  check("top_k", sampling.topK, 0, 2 ** 31 - 1);
  check("top_p", sampling.topP, 0, 1);
  check("min_p", sampling.minP, 0, 1);
  check("repetition_penalty", sampling.repetitionPenalty, 0.1, 10);
  check("presence_penalty", sampling.presencePenalty, -2, 2);
  check("frequency_penalty", sampling.frequencyPenalty, -2, 2);
  for (const [token, bias] of sampling.logitBias) {
    check("a token of logit_bias", token, 0, vocabulary - 1);
    check(`logit_bias of token ${token}`, bias, -100, 100);
  }
  for (const [token, count] of sampling.seen) {
    check("a token that was seen", token, 0, vocabulary - 1);
    check(`the count of token ${token}`, count, 1, 2 ** 24);
  }
}
