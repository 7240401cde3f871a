// How each session samples, as the orchestrator's Sampling messages tell the last stage: the same
// rules as src/worker/sampling_table.h. A step that asks for candidates or a draw is answered only
// with what was told for exactly its generation and position.
import { EngineError, counterDouble, hasPenalties } from "@weft/engine";
import type { Sampling } from "@weft/engine";
import type { Sampling as SamplingMessage } from "@weft/wire";

const kMostSessions = 65536;
const kMostBiases = 65536;

interface Entry {
  readonly generation: number;
  readonly sampling: Sampling;
  readonly seen: Map<number, number>; // the sampling's
  tokenCount: number;
}

export interface FoundSampling {
  readonly sampling: Sampling;
  readonly uniform: number; // of a draw of the token at the position
}

function problemOf(message: SamplingMessage): string {
  const params = message.params!;
  const ranges: readonly [string, number, number, number][] = [
    ["temperature", params.temperature, 0, 1e6],
    ["top_p", params.topP, 0, 1],
    ["min_p", params.minP, 0, 1],
    ["repetition penalty", params.repetitionPenalty, 1e-6, 1e6],
    ["presence penalty", params.presencePenalty, -1e6, 1e6],
    ["frequency penalty", params.frequencyPenalty, -1e6, 1e6],
    ...params.biases.map((bias): [string, number, number, number] => ["bias", bias, -1e6, 1e6]),
  ];
  for (const [name, value, lowest, highest] of ranges) {
    if (value >= Math.fround(lowest) && value <= highest) continue;
    return `has a ${name} of ${value}, expected ${lowest} to ${highest}`;
  }
  const { length } = params.biases;
  if (params.biasTokens.length === length && length <= kMostBiases) return "";
  return (
    `has ${length} biases for ${params.biasTokens.length} tokens, expected as many of both and ` +
    `at most ${kMostBiases}`
  );
}

export class SamplingTable {
  readonly #entries = new Map<number, Entry>(); // by session

  // "" or why the orchestrator cannot be trusted any more.
  onMessage(message: SamplingMessage, vocabulary: number): string {
    const problem = this.#take(message, vocabulary);
    if (problem === "") return "";
    return `The server's sampling of session ${message.session} ${problem}.`;
  }

  #take(message: SamplingMessage, vocabulary: number): string {
    const { session, generation, params } = message;
    if (params) {
      const problem = problemOf(message);
      if (problem !== "") return problem;
      if (this.#entries.size >= kMostSessions && !this.#entries.has(session)) {
        return `comes beside that of ${kMostSessions} others, expected that sessions end`;
      }
      const seen = new Map<number, number>();
      const logitBias = new Map<number, number>();
      for (const [index, token] of params.biasTokens.entries()) {
        logitBias.set(token, (logitBias.get(token) ?? 0) + params.biases[index]!);
      }
      const { temperature, topK, topP, minP, seed } = params;
      const { repetitionPenalty, presencePenalty, frequencyPenalty } = params;
      const penalties = { repetitionPenalty, presencePenalty, frequencyPenalty };
      const sampling = { temperature, topK, topP, minP, seed, ...penalties, logitBias, seen };
      this.#entries.set(session, { generation, sampling, seen, tokenCount: 0 });
    }
    const entry = this.#entries.get(session);
    if (entry?.generation !== generation) {
      return `continues generation ${generation}, which was not begun here`;
    }
    for (const token of message.tokens) {
      if (token >= vocabulary) return `names token ${token}, expected less than ${vocabulary}`;
      entry.seen.set(token, (entry.seen.get(token) ?? 0) + 1);
    }
    entry.tokenCount += message.tokens.length;
    return "";
  }

  // For choosing the token at `position`, which is also the number of tokens before it. Throws
  // EngineError when nothing was told for this generation, or not all of the tokens.
  find(session: number, generation: number, position: number): FoundSampling {
    const entry = this.#entries.get(session);
    if (entry?.generation !== generation) {
      throw new EngineError(
        "invalid_argument",
        `How session ${session} samples in generation ${generation} was not told here.`,
      );
    }
    const { sampling, tokenCount } = entry;
    if (hasPenalties(sampling) && tokenCount !== position) {
      throw new EngineError(
        "invalid_argument",
        `Of session ${session} ${tokenCount} tokens are known here, expected the ${position} ` +
          `before the one to choose.`,
      );
    }
    return { sampling, uniform: counterDouble(sampling.seed, position, 0) };
  }

  release(session: number): void {
    this.#entries.delete(session);
  }

  clear(): void {
    this.#entries.clear();
  }
}
