// Time to the first text and tokens per second of one answer, as this page saw them.
import type { AnswerStats } from "@weft/ui";

export class AnswerStopwatch {
  readonly #sentAtMs: number;
  #firstAtMs = 0;
  #lastAtMs = 0;
  #pieces = 0;

  constructor(nowMs: number) {
    this.#sentAtMs = nowMs;
  }

  onText(nowMs: number): void {
    if (this.#pieces === 0) this.#firstAtMs = nowMs;
    this.#lastAtMs = nowMs;
    this.#pieces += 1;
  }

  // `tokens` as the server counts them; without that (a stopped answer) a piece counts as one.
  // undefined when nothing came.
  stats(tokens: number | null): AnswerStats | undefined {
    if (this.#pieces === 0) return undefined;
    const count = tokens ?? this.#pieces;
    const seconds = (this.#lastAtMs - this.#firstAtMs) / 1000;
    return {
      firstTokenMs: this.#firstAtMs - this.#sentAtMs,
      tokens: count,
      // The first token's time is the prompt's, not its own.
      tokensPerSecond: count > 1 && seconds > 0 ? (count - 1) / seconds : 0,
    };
  }
}
