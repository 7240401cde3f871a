// Pauses between attempts to connect: doubling from 1 s to 30 s, with jitter, so that a server that
// restarts is not met by all its workers in one instant.

const kFirstMs = 1000;
const kLongestMs = 30_000;

export class Backoff {
  readonly #random: () => number;
  #nextMs = kFirstMs;

  // `random` gives [0, 1).
  constructor(random: () => number) {
    this.#random = random;
  }

  // Begins with the short pause again, after a connection that was good.
  reset(): void {
    this.#nextMs = kFirstMs;
  }

  // The pause before the next attempt.
  next(): number {
    const pause = this.#nextMs * (0.75 + 0.5 * this.#random());
    this.#nextMs = Math.min(this.#nextMs * 2, kLongestMs);
    return pause;
  }
}
