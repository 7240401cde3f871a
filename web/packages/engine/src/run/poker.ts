// Chromium's GPU process notices a finished result late when nothing else reaches it: a step then
// costs about 2 ms more than its kernels. Empty submissions while a result is waited for make it
// look. They cost processor time, so they are rate-limited, end when the result is there and are
// given up when it takes so long that 2 ms do not matter.
const kPauseMs = 0.1;
const kLongestMs = 30;

export interface PokerClock {
  readonly now: () => number;
  // Calls back after messages that are waiting, without the pauses that timers have.
  readonly soon: (callback: () => void) => void;
}

export class Poker {
  isOn: boolean;
  count = 0; // since the engine was made
  readonly #queue: Pick<GPUQueue, "submit">;
  readonly #clock: PokerClock;
  #waiting = 0;
  #begin = 0;
  #isTicking = false;

  constructor(queue: Pick<GPUQueue, "submit">, isOn: boolean, clock: PokerClock = messageClock()) {
    this.#queue = queue;
    this.#clock = clock;
    this.isOn = isOn;
  }

  // The same as `pending`.
  async during<T>(pending: Promise<T>): Promise<T> {
    if (!this.isOn) return pending;
    ++this.#waiting;
    this.#begin = this.#clock.now();
    if (!this.#isTicking) this.#tick(this.#begin);
    try {
      return await pending;
    } finally {
      --this.#waiting;
    }
  }

  #tick(lastPoke: number): void {
    this.#isTicking = true;
    this.#clock.soon(() => {
      const now = this.#clock.now();
      if (this.#waiting === 0 || now - this.#begin > kLongestMs) {
        this.#isTicking = false;
        return;
      }
      const isDue = now - lastPoke >= kPauseMs;
      if (isDue) {
        this.#queue.submit([]);
        ++this.count;
      }
      this.#tick(isDue ? now : lastPoke);
    });
  }
}

function messageClock(): PokerClock {
  let channel: MessageChannel | null = null;
  let next: () => void = () => undefined;
  return {
    now: () => performance.now(),
    soon: (callback) => {
      next = callback;
      if (!channel) {
        channel = new MessageChannel();
        channel.port1.onmessage = () => {
          next();
        };
      }
      channel.port2.postMessage(null);
    },
  };
}
