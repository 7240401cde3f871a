// The phase as it is shown. A tab that helps computes for milliseconds many times a second: words
// that changed as often could neither be read nor read out, so "computing" stays for a moment.
import type { WorkerPhase } from "@weft/worker";

const kHoldMs = 1500;

export class SteadyPhase {
  readonly #show: (phase: WorkerPhase) => void;
  #shown: WorkerPhase = "stopped";
  #timer: ReturnType<typeof setTimeout> | undefined;

  // `show` is told of every change.
  constructor(show: (phase: WorkerPhase) => void) {
    this.#show = show;
  }

  see(phase: WorkerPhase): void {
    const isPause = this.#shown === "computing" && phase === "ready";
    if (isPause) {
      this.#timer ??= setTimeout(() => this.#set("ready"), kHoldMs);
    } else {
      this.#set(phase);
    }
  }

  #set(phase: WorkerPhase): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (phase === this.#shown) return;
    this.#shown = phase;
    this.#show(phase);
  }
}
