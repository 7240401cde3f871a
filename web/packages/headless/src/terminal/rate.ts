// The rate of a count that grows, over the last seconds.

const kWindowMs = 3000;

export class Rate {
  #samples: { count: number; atMs: number }[] = [];

  // The rate, per second; 0 while nothing grows. A count that falls begins anew.
  add(count: number, atMs: number): number {
    if (count < (this.#samples.at(-1)?.count ?? 0)) this.#samples = [];
    this.#samples.push({ count, atMs });
    while (this.#samples.length > 2 && atMs - this.#samples[1]!.atMs > kWindowMs) {
      this.#samples.shift();
    }
    const [first] = this.#samples;
    const seconds = (atMs - first!.atMs) / 1000;
    return seconds > 0 ? (count - first!.count) / seconds : 0;
  }
}
