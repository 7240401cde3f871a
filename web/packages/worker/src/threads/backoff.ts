// Pauses between attempts to connect: none before the first, then doubling from 1 s to 30 s, with
// jitter, so that a server that restarts is not met by all its workers in one instant. A worker
// that still holds what it computed with is missed, and asks for a shorter limit: a swarm with too
// few others stands still for as long as the pause is. The same in
// C++: src/apps/backoff.h.

const kShortestMs = 1000;
const kLongestMs = 30_000;

export class Backoff {
  readonly #random: () => number;
  #nextMs = 0;

  // `random` gives [0, 1).
  constructor(random: () => number) {
    this.#random = random;
  }

  // Begins without a pause again, after a connection that was good.
  reset(): void {
    this.#nextMs = 0;
  }

  // The pause before the next attempt, at most `limitMs` before the jitter.
  next(limitMs = kLongestMs): number {
    const pause = Math.min(this.#nextMs, limitMs) * (0.75 + 0.5 * this.#random());
    this.#nextMs = Math.min(Math.max(this.#nextMs * 2, kShortestMs), kLongestMs);
    return pause;
  }
}
