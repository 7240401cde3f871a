// The Generates of one connection, from when they come to their last tokens: the rules of
// src/worker/generate_queue.h, where a picture of them is. Here the engine goes on from batch to
// batch by itself; who comes in joins it, and it pauses where other work waits.
import type { GenerateFrame } from "@weft/wire";

interface Known {
  frame: GenerateFrame; // what is still wanted
  hasJoined: boolean;
  isStopped: boolean;
}

export class GenerateQueue {
  #places = 0; // of a batch
  #isDue = false;
  #known = new Map<number, Known>(); // by sequence, in the order in which they join

  // From Connect on.
  begin(places: number): void {
    this.clear();
    this.#places = places;
  }

  clear(): void {
    this.#known.clear();
    this.#isDue = false;
  }

  // Whether other work passes between batches, and further sessions join.
  get isBatching(): boolean {
    return this.#places > 1;
  }

  get isEmpty(): boolean {
    return this.#known.size === 0;
  }

  // It has come, and waits for its turn.
  add(frame: GenerateFrame): void {
    this.#known.set(frame.sequence, { frame, hasJoined: false, isStopped: false });
  }

  // Its turn has come.
  join(sequence: number): void {
    const known = this.#known.get(sequence);
    if (known) known.hasJoined = true;
  }

  // Nobody wants the rest. Of one that has ended it says nothing.
  stop(sequence: number): void {
    const known = this.#known.get(sequence);
    if (known) known.isStopped = true;
  }

  // The same where the session is over, or the binding was dropped. Gives the sequences.
  stopWhere(isOver: (frame: GenerateFrame) => boolean): number[] {
    const over = [...this.#known].filter(([, { frame }]) => isOver(frame));
    for (const [, known] of over) known.isStopped = true;
    return over.map(([sequence]) => sequence);
  }

  isStopped(sequence: number): boolean {
    return this.#known.get(sequence)?.isStopped !== false;
  }

  // Whether the next work is a batch, where other work waits or does not.
  isNext(othersWait: boolean): boolean {
    const anyJoined = [...this.#known.values()].some(({ hasJoined }) => hasJoined);
    return anyJoined && (!this.isBatching || this.#isDue || !othersWait);
  }

  // Other work that takes its time was begun.
  passed(): void {
    this.#isDue = true;
  }

  // The next batch, and apart from it those that ended since.
  take(): { wanted: GenerateFrame[]; unwanted: GenerateFrame[] } {
    this.#isDue = false;
    const joined = [...this.#known.values()].filter(({ hasJoined }) => hasJoined);
    const unwanted = joined.filter(({ isStopped }) => isStopped).map(({ frame }) => frame);
    for (const { sequence } of unwanted) this.#known.delete(sequence);
    const wanted = joined.filter(({ isStopped }) => !isStopped).map(({ frame }) => frame);
    return { wanted: wanted.slice(0, Math.max(this.#places, 1)), unwanted };
  }

  // What the session of a batch was told; null: it is none.
  frameOf(sequence: number): GenerateFrame | null {
    return this.#known.get(sequence)?.frame ?? null;
  }

  // These tokens were told of it. It goes behind those that had no place.
  told(sequence: number, tokens: readonly number[]): void {
    const known = this.#known.get(sequence);
    const last = tokens.at(-1);
    if (!known || last === undefined) return;
    const { frame } = known;
    const seen = new Map(frame.seen);
    if (seen.size > 0) for (const token of tokens) seen.set(token, (seen.get(token) ?? 0) + 1);
    this.#known.delete(sequence);
    known.frame = {
      ...frame,
      position: frame.position + tokens.length,
      token: last,
      count: frame.count - tokens.length,
      seen: [...seen],
    };
    this.#known.set(sequence, known);
  }

  // All of the batches: the engine has failed.
  endJoined(): GenerateFrame[] {
    const joined = [...this.#known.values()].filter(({ hasJoined }) => hasJoined);
    for (const { frame } of joined) this.#known.delete(frame.sequence);
    return joined.map(({ frame }) => frame);
  }

  end(sequence: number): void {
    this.#known.delete(sequence);
  }
}
