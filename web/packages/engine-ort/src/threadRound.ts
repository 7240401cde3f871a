// The known kernel that threads are timed with: rounds of a matrix [kRows, kColumns] times a
// vector, in f32. Thread 0 begins each round, every thread computes its share of the rows, and
// thread 0 waits for the others without sleeping: what onnxruntime does for every product.
const kRows = 512;
const kColumns = 512;
const kFloats = kRows * kColumns + kColumns + kRows;

// Words at the beginning of the shared memory.
const kRound = 0; // counts up; kOver ends the helpers
const kDone = 1; // helpers that have computed their share of the round
const kHeadWords = 2;
const kOver = -1;

export const kRoundBytes = 4 * (kHeadWords + kFloats);

export class ThreadRound {
  readonly #head: Int32Array<SharedArrayBuffer>;
  readonly #weights: Float32Array<SharedArrayBuffer>;
  readonly #input: Float32Array<SharedArrayBuffer>;
  readonly output: Float32Array<SharedArrayBuffer>;
  readonly #threads: number;

  constructor(memory: SharedArrayBuffer, threads: number) {
    let at = 0;
    const floats = (count: number): Float32Array<SharedArrayBuffer> => {
      const part = new Float32Array(memory, 4 * (kHeadWords + at), count);
      at += count;
      return part;
    };
    this.#head = new Int32Array(memory, 0, kHeadWords);
    this.#weights = floats(kRows * kColumns);
    this.#input = floats(kColumns);
    this.output = floats(kRows);
    this.#threads = threads;
  }

  // Small whole numbers, so that sums are exact in any order.
  fill(): void {
    this.#weights.forEach((_, i) => (this.#weights[i] = (i % 7) - 3));
    this.#input.forEach((_, i) => (this.#input[i] = (i % 5) - 2));
  }

  compute(thread: number): void {
    const [weights, input, output] = [this.#weights, this.#input, this.output];
    const end = Math.floor((kRows * (thread + 1)) / this.#threads);
    for (let row = Math.floor((kRows * thread) / this.#threads); row < end; ++row) {
      const at = row * kColumns;
      let sum = 0;
      for (let i = 0; i < kColumns; ++i) sum += weights[at + i]! * input[i]!;
      output[row] = sum;
    }
  }

  // Of thread 0: false where the others were not done after `limitMs`.
  run(limitMs: number): boolean {
    Atomics.store(this.#head, kDone, 0);
    Atomics.add(this.#head, kRound, 1);
    Atomics.notify(this.#head, kRound);
    this.compute(0);
    const end = performance.now() + limitMs;
    while (Atomics.load(this.#head, kDone) < this.#threads - 1) {
      if (performance.now() > end) return false;
    }
    return true;
  }

  // Ends the helpers.
  finish(): void {
    Atomics.store(this.#head, kRound, kOver);
    Atomics.notify(this.#head, kRound);
  }

  // Of the other threads: returns after finish().
  help(thread: number): void {
    for (let seen = 0; ; ) {
      Atomics.wait(this.#head, kRound, seen);
      const round = Atomics.load(this.#head, kRound);
      if (round === kOver) return;
      if (round === seen) continue;
      seen = round;
      this.compute(thread);
      Atomics.add(this.#head, kDone, 1);
    }
  }
}
