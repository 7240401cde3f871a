// The recurrent states of a session that makes tokens ahead (run/tokenLoop.ts), in one layer and in
// all of them. A step reads a slot and writes another one, and a token that turns out to be the
// last one wanted may lie behind any step of the last two batches. So the states at the ends of
// batches are held until the tokens of the batch behind them are told; from the last such end the
// session computes the rest once more, where it stops within a batch.
//
//   slots    s0 a b a b | a b ...          two batches of four steps: s0 -> a -> b -> a -> b
//   held     s0       b       end of the first batch; s0 goes when its tokens are told
import { kNone } from "../kernels/common/op.ts";

export interface Slots {
  readonly before: number; // kNone: zeros
  readonly after: number;
}

// Of one layer, which counts who uses a slot.
export interface SlotPool {
  take(): number;
  // Once more.
  use(slot: number): void;
  drop(slot: number): void;
  isUsedOnce(slot: number): boolean;
}

// What a session holds there from now on: the state of that many tokens behind the first one.
export type Settle = (done: number, slot: number) => void;

// Slots beside the one that the chain begins with: the ends of two batches, of which one may not
// have been told yet, and two between which steps go to and fro. The first one serves as one of
// them later, unless others use it too.
export const kChainSlots = 4;
// The fewest, with which a batch is one step and told before the next one begins.
export const kFewestSlots = 2;

interface End {
  readonly done: number; // tokens
  readonly slot: number;
}

export class LayerChain {
  readonly #pool: SlotPool;
  readonly #settle: Settle;
  readonly #spare: number[] = [];
  #ends: End[];
  #current: number;

  // `first`: the slot of the state in front of the first token. REQUIRES: `slotCount` free ones.
  constructor(pool: SlotPool, first: number, slotCount: number, settle: Settle) {
    this.#pool = pool;
    this.#settle = settle;
    this.#current = first;
    this.#ends = [{ done: 0, slot: first }];
    if (first !== kNone) pool.use(first);
    for (let i = 0; i < slotCount; ++i) this.#spare.push(pool.take());
  }

  next(): Slots {
    const before = this.#current;
    this.#current = this.#spare.pop()!;
    if (!this.#isEnd(before)) this.#spare.push(before);
    return { before, after: this.#current };
  }

  hold(done: number): void {
    this.#ends.push({ done, slot: this.#current });
  }

  told(done: number): boolean {
    const end = this.#ends.find((each) => each.done === done);
    if (!end) return false;
    this.#pool.use(end.slot);
    this.#settle(done, end.slot);
    const before = this.#ends.filter((each) => each.done < done);
    this.#ends = this.#ends.filter((each) => each.done >= done);
    for (const { slot } of before) this.#release(slot);
    return true;
  }

  back(): number {
    const [first, ...later] = this.#ends as [End, ...End[]];
    if (!this.#isEnd(this.#current)) this.#spare.push(this.#current);
    this.#ends = [first];
    for (const { slot } of later) this.#release(slot);
    this.#current = first.slot;
    return first.done;
  }

  end(): void {
    if (!this.#isEnd(this.#current)) this.#pool.drop(this.#current);
    for (const { slot } of this.#ends) if (slot !== kNone) this.#pool.drop(slot);
    for (const slot of this.#spare) this.#pool.drop(slot);
    this.#ends = [];
    this.#spare.length = 0;
    this.#current = kNone;
  }

  #isEnd(slot: number): boolean {
    return slot === kNone || this.#ends.some((end) => end.slot === slot);
  }

  // It is a spare one, unless others use it.
  #release(slot: number): void {
    if (slot === kNone) return;
    if (this.#pool.isUsedOnce(slot)) this.#spare.push(slot);
    else this.#pool.drop(slot);
  }
}

// The same in all layers with state, by layer.
export class StateChain {
  readonly #layers: ReadonlyMap<number, LayerChain>;

  constructor(layers: ReadonlyMap<number, LayerChain>) {
    this.#layers = layers;
  }

  // The slots of the next step.
  next(): ReadonlyMap<number, Slots> {
    return new Map([...this.#layers].map(([index, layer]) => [index, layer.next()]));
  }

  // The state behind the last step, `done` tokens behind the first one, is the end of a batch.
  hold(done: number): void {
    for (const layer of this.#layers.values()) layer.hold(done);
  }

  // So many tokens were told: the session goes on behind them, and cannot go back. False: they end
  // within a batch, where no state is held, and nothing has changed.
  told(done: number): boolean {
    return [...this.#layers.values()].every((layer) => layer.told(done));
  }

  // Begins once more where the last told batch ended; the result is how many tokens that is.
  back(): number {
    return Math.max(...[...this.#layers.values()].map((layer) => layer.back()));
  }

  // Gives back all slots but that of what was told.
  end(): void {
    for (const layer of this.#layers.values()) layer.end();
  }
}
