// Time to the first text and tokens per second of one answer, as this page saw them.
import type { AnswerStats } from "@weft/ui";

export class AnswerStopwatch {
  readonly #sentAtMs: number;
  #firstAtMs = 0;
  #lastAtMs = 0;
  #pieces = 0;
  #isThinking = false;

  constructor(nowMs: number) {
    this.#sentAtMs = nowMs;
  }

  onThoughts(nowMs: number): void {
    this.#count(nowMs);
    this.#isThinking = true;
  }

  // How long the thoughts took that end with this text; null: there were none.
  onText(nowMs: number): number | null {
    this.#count(nowMs);
    if (!this.#isThinking) return null;
    this.#isThinking = false;
    return nowMs - this.#firstAtMs;
  }

  #count(nowMs: number): void {
    if (this.#pieces === 0) this.#firstAtMs = nowMs;
    this.#lastAtMs = nowMs;
    this.#pieces += 1;
  }

  // `tokens` as the server counts them; without that (a stopped answer) a piece counts as one.
  // `isAgain`: the answer came a second time, which says nothing of its speed. undefined when
  // nothing came.
  stats(tokens: number | null, isAgain = false): AnswerStats | undefined {
    if (this.#pieces === 0) return undefined;
    const count = tokens ?? this.#pieces;
    if (isAgain) return { firstTokenMs: 0, tokens: count, tokensPerSecond: 0 };
    const seconds = (this.#lastAtMs - this.#firstAtMs) / 1000;
    return {
      firstTokenMs: this.#firstAtMs - this.#sentAtMs,
      tokens: count,
      // The first token's time is the prompt's, not its own.
      tokensPerSecond: count > 1 && seconds > 0 ? (count - 1) / seconds : 0,
    };
  }
}
