// A thread hands over pieces, and does not run ahead of its caller by more than so many. Both ends
// say what happened with messages of their own (blobThread.ts, and fetchThreads.ts of headless
// workers).
export class HandingOver {
  readonly #most: number;
  readonly #life = new AbortController();
  #ahead = 0; // pieces that were given and not taken
  #wake: () => void = () => undefined;

  constructor(most: number) {
    this.#most = most;
  }

  get signal(): AbortSignal {
    return this.#life.signal;
  }

  onTaken(): void {
    --this.#ahead;
    this.#wake();
  }

  cancel(): void {
    this.#life.abort();
    this.#wake();
  }

  // Resolves when one more may be given, and at once after a cancel.
  async mayGive(): Promise<void> {
    while (this.#ahead >= this.#most && !this.#life.signal.aborted) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    ++this.#ahead;
  }
}
