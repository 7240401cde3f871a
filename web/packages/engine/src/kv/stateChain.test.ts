// Slots of a session that makes tokens ahead: a step never reads a slot that was written over, the
// session goes on from the state that it should, and no slot is lost.
import { describe, expect, it } from "vitest";

import { kNone } from "../kernels/common/op.ts";
import { kChainSlots, LayerChain } from "./stateChain.ts";

// Slots whose contents are how many tokens their state lies behind.
class Pool {
  readonly holds = new Map<number, number>();
  readonly uses = new Map<number, number>();
  next = 0;

  take(): number {
    this.uses.set(this.next, 1);
    return this.next++;
  }
  use(slot: number): void {
    this.uses.set(slot, this.uses.get(slot)! + 1);
  }
  drop(slot: number): void {
    this.uses.set(slot, this.uses.get(slot)! - 1);
  }
  isUsedOnce(slot: number): boolean {
    return this.uses.get(slot) === 1;
  }
}

interface Told {
  done: number;
  slot: number;
}

// A session with `first` tokens that takes batches of these steps ahead, one untold at a time, and
// stops `stop` tokens behind the first one. Gives the pool and where the session stands.
function run(batches: readonly number[], stop: number, isNew: boolean, isShared: boolean) {
  const pool = new Pool();
  const first = isNew ? kNone : pool.take();
  if (!isNew) pool.holds.set(first, 0);
  if (isShared) pool.use(first);
  let at: Told = { done: 0, slot: first };
  const settle = (done: number, slot: number): void => {
    if (at.slot !== kNone) pool.drop(at.slot);
    at = { done, slot };
  };
  const count = isNew || isShared ? kChainSlots : kChainSlots - 1;
  const chain = new LayerChain(pool, first, count, settle);
  let submitted = 0;
  const step = (done: number): void => {
    const { before, after } = chain.next();
    expect(before === kNone ? 0 : pool.holds.get(before)).toBe(done);
    expect(after).not.toBe(before);
    pool.holds.set(after, done + 1);
  };
  const ends: number[] = [];
  const tell = (): void => {
    const done = Math.min(ends.shift()!, stop);
    if (chain.told(done)) return;
    const from = chain.back();
    for (let i = from; i < done; ++i) step(i);
    chain.hold(done);
    expect(chain.told(done)).toBe(true);
  };
  for (const steps of batches) {
    for (let i = 0; i < steps; ++i) step(submitted++);
    chain.hold(submitted);
    ends.push(submitted);
    if (ends.length > 1) tell();
    if (at.done === stop) break;
  }
  if (at.done < stop) tell();
  chain.end();
  return { pool, at, first };
}

describe("states of tokens made ahead", () => {
  it("are those of the steps before, wherever a session stops, and none is lost", () => {
    const batches = [1, 1, 2, 4, 4, 4];
    for (const [isNew, isShared] of [[true, false], [false, false], [false, true]] as const) {
      for (let stop = 1; stop <= 16; ++stop) {
        const { pool, at, first } = run(batches, stop, isNew, isShared);
        expect(at.done).toBe(stop);
        expect(pool.holds.get(at.slot)).toBe(stop);
        const used = [...pool.uses].filter(([, uses]) => uses > 0);
        const expected = isShared ? [[first, 1], [at.slot, 1]] : [[at.slot, 1]];
        expect(used.sort(), `stop at ${stop}`).toEqual(expected.sort());
        expect(pool.next).toBeLessThanOrEqual(kChainSlots + 1);
      }
    }
  });
});
