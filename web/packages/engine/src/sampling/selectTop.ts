// The best tokens of a row of logits: what the last stage gives back instead of all of them.
import type { TokenLogit } from "./tokenLogit.ts";

// Above this many values that are not finite the exact number says nothing more.
export function countNonFinite(values: ArrayLike<number>): number {
  let count = 0;
  for (let i = 0; i < values.length; ++i) if (!Number.isFinite(values[i])) ++count;
  return count;
}

export interface Top {
  readonly candidates: readonly TokenLogit[];
  readonly logsumexp: number; // of the whole row
}

// The `count` largest logits by falling value, equal ones by rising id, and logsumexp of all.
// REQUIRES: every value is finite, 1 <= count.
export function selectTop(logits: Float32Array, count: number): Top {
  const size = Math.min(count, logits.length);
  const best = new BestHeap(size);
  let largest = -Infinity;
  for (let id = 0; id < logits.length; ++id) {
    const logit = logits[id]!;
    if (logit > largest) largest = logit;
    if (logit > best.threshold) best.offer(id, logit);
  }
  let sum = 0;
  for (let id = 0; id < logits.length; ++id) sum += Math.exp(logits[id]! - largest);
  return { candidates: best.sorted(), logsumexp: largest + Math.log(sum) };
}

// A heap with the worst of the best on top. Ids come rising, so that a later equal logit is worse.
class BestHeap {
  readonly #size: number;
  readonly #heap: TokenLogit[] = [];
  threshold = -Infinity; // a logit must exceed it once the heap is full

  constructor(size: number) {
    this.#size = size;
  }

  offer(tokenId: number, logit: number): void {
    const heap = this.#heap;
    if (heap.length < this.#size) {
      heap.push({ tokenId, logit });
      this.#rise(heap.length - 1);
    } else {
      heap[0] = { tokenId, logit };
      this.#sink(0);
    }
    if (heap.length === this.#size) this.threshold = heap[0]!.logit;
  }

  sorted(): TokenLogit[] {
    return [...this.#heap].sort((a, b) => b.logit - a.logit || a.tokenId - b.tokenId);
  }

  #isWorse(a: number, b: number): boolean {
    const [x, y] = [this.#heap[a]!, this.#heap[b]!];
    return x.logit < y.logit || (x.logit === y.logit && x.tokenId > y.tokenId);
  }

  #swap(a: number, b: number): void {
    [this.#heap[a], this.#heap[b]] = [this.#heap[b]!, this.#heap[a]!];
  }

  #rise(at: number): void {
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isWorse(at, parent)) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  #sink(at: number): void {
    for (;;) {
      let worst = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < this.#heap.length && this.#isWorse(child, worst)) worst = child;
      }
      if (worst === at) return;
      this.#swap(at, worst);
      at = worst;
    }
  }
}
