// How much of what is loaded is handed to the GPU at a time; a step waits behind two such batches.
// As much as keeps the line busy while nothing is computed, and else what takes a small part of a
// step's time, where a millisecond brings some MiB:
//
//   steps of 20 ms and less: 1 MiB    of 60 ms: 3 MiB    of 320 ms and more, or none: 16 MiB
//
// A step's time contains what it waited for. With B = c T bytes in a batch and r bytes a ms,
// T = T0 + 2 c T / r, which is T0 / (1 - 2 c / r): bounded where r is more than 2 c = 0.1 MiB.

const kMiB = 1 << 20;
const kMostBytes = 16 * kMiB;
const kLeastBytes = kMiB;
const kBytesOfMs = kMiB / 20; // of a step
// Steps that ended so lately are followed by others.
const kRecentMs = 250;

export class LoadPace {
  readonly #now: () => number; // ms
  #computing = 0; // steps and Generates
  #endedAt = -Infinity; // the last one, ms
  #stepMs = 0; // the last step

  constructor(now = (): number => performance.now()) {
    this.#now = now;
  }

  get batchBytes(): number {
    const isIdle = this.#computing === 0 && this.#now() - this.#endedAt >= kRecentMs;
    if (isIdle) return kMostBytes;
    return Math.min(kMostBytes, Math.max(kLeastBytes, kBytesOfMs * this.#stepMs));
  }

  async step<T>(compute: () => Promise<T>): Promise<T> {
    const begin = this.#now();
    let before = begin;
    const made = await this.generate(async () => {
      const result = await compute();
      before = this.#endedAt; // of a step that was still under way when this one began
      return result;
    });
    this.#stepMs = this.#endedAt - Math.max(begin, before);
    return made;
  }

  // Many tokens, whose steps nobody times.
  async generate<T>(compute: () => Promise<T>): Promise<T> {
    ++this.#computing;
    try {
      return await compute();
    } finally {
      --this.#computing;
      this.#endedAt = this.#now();
    }
  }
}
