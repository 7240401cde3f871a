// Notices that nothing comes any more: a link that broke without a word (a laptop's lid, another
// network) stays open for the browser for many minutes. The server pings every 2 s.
//
// Silence is counted in turns of a timer, not read off a clock: while this thread was busy or its
// tab frozen nothing could be heard, and what came meanwhile is heard before a second turn.

const kTurnMs = 1000;

const kSilentTurns = 6; // three pings

export class SilenceWatch {
  readonly #isExcused: () => boolean;
  readonly #onSilent: () => void;
  #turns = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;

  // `onSilent` is called once. While `isExcused`, nothing is expected to come.
  constructor(isExcused: () => boolean, onSilent: () => void) {
    this.#isExcused = isExcused;
    this.#onSilent = onSilent;
  }

  // Counts from now on: something is expected.
  start(): void {
    this.#timer = setTimeout(() => this.#onTurn(), kTurnMs);
  }

  heard(): void {
    this.#turns = 0;
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #onTurn(): void {
    this.#turns = this.#isExcused() ? 0 : this.#turns + 1;
    if (this.#turns < kSilentTurns) return this.start();
    this.#timer = null;
    this.#onSilent();
  }
}
