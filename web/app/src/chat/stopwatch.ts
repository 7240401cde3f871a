// Time to the first text and tokens per second of one answer, as this page saw them.
import type { AnswerStats } from "@weft/ui";

// 40 tokens that came within 0.2 ms were computed long before: 200,000 tokens/s would be how fast
// the page reads. Such an answer has no rate.
const kShortestRateMs = 100;

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
    const wroteMs = this.#lastAtMs - this.#firstAtMs;
    return {
      firstTokenMs: this.#firstAtMs - this.#sentAtMs,
      tokens: count,
      // The first token's time is the prompt's, not its own.
      tokensPerSecond: count > 1 && wroteMs >= kShortestRateMs ? (1000 * (count - 1)) / wroteMs : 0,
    };
  }
}
