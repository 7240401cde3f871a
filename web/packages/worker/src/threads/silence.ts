// Notices that nothing comes any more: a link that broke without a word (a laptop's lid, another
// network) stays open for the browser for many minutes. The server pings, and says how often.
//
// Silence is counted in turns of a timer, not read off a clock: while this thread was busy or its
// tab frozen nothing could be heard, and what came meanwhile is heard before a second turn.

const kTurnMs = 1000;

const kSilentTurns = 6; // until the server has said how often it pings

export class SilenceWatch {
  readonly #isExcused: () => boolean;
  readonly #onSilent: (ms: number) => void;
  #turns = 0;
  #limit = kSilentTurns;
  #timer: ReturnType<typeof setTimeout> | null = null;

  // `onSilent` is called once, with how long it was. While `isExcused`, nothing is expected.
  constructor(isExcused: () => boolean, onSilent: (ms: number) => void) {
    this.#isExcused = isExcused;
    this.#onSilent = onSilent;
  }

  // Counts from now on: something is expected.
  start(): void {
    this.#timer = setTimeout(() => this.#onTurn(), kTurnMs);
  }

  // How long it may be silent from now on.
  limit(ms: number): void {
    this.#limit = Math.ceil(ms / kTurnMs);
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
    if (this.#turns < this.#limit) return this.start();
    this.#timer = null;
    this.#onSilent(this.#turns * kTurnMs);
  }
}
