import { describe, expect, it } from "vitest";

import { Poker } from "./poker.ts";
import type { PokerClock } from "./poker.ts";

// A clock and a message loop that a test turns by hand.
class HandClock implements PokerClock {
  time = 0;
  #waiting: (() => void)[] = [];

  readonly now = (): number => this.time;

  readonly soon = (callback: () => void): void => {
    this.#waiting.push(callback);
  };

  get isIdle(): boolean {
    return this.#waiting.length === 0;
  }

  turn(byMs: number): void {
    this.time += byMs;
    for (const callback of this.#waiting.splice(0)) callback();
  }
}

function make(isOn = true): { poker: Poker; clock: HandClock; submitted: unknown[][] } {
  const clock = new HandClock();
  const submitted: unknown[][] = [];
  const submit = (buffers: Iterable<unknown>): undefined => {
    submitted.push([...buffers]);
  };
  return { poker: new Poker({ submit }, isOn, clock), clock, submitted };
}

function pending(): { promise: Promise<number>; settle: () => void; fail: () => void } {
  let [settle, fail] = [(): void => undefined, (): void => undefined];
  const promise = new Promise<number>((resolve, reject) => {
    settle = () => {
      resolve(7);
    };
    fail = () => {
      reject(new Error("the device was lost"));
    };
  });
  return { promise, settle, fail };
}

describe("Poker", () => {
  it("submits nothing but empty lists, at most one every 0.1 ms", () => {
    const { poker, clock, submitted } = make();
    void poker.during(pending().promise);
    for (let i = 0; i < 100; ++i) clock.turn(0.01); // 1 ms
    expect(submitted.length).toBeGreaterThanOrEqual(8);
    expect(submitted.length).toBeLessThanOrEqual(10);
    expect(submitted.every((buffers) => buffers.length === 0)).toBe(true);
    expect(poker.count).toBe(submitted.length);
  });

  it("stops when the result is there", async () => {
    const { poker, clock, submitted } = make();
    const { promise, settle } = pending();
    const result = poker.during(promise);
    clock.turn(0.2);
    expect(submitted).toHaveLength(1);
    settle();
    expect(await result).toBe(7);
    clock.turn(0.2);
    expect(submitted).toHaveLength(1);
    expect(clock.isIdle).toBe(true);
  });

  it("stops when the wait fails, and pokes again in the next wait", async () => {
    const { poker, clock, submitted } = make();
    const { promise, fail } = pending();
    const result = poker.during(promise);
    fail();
    await expect(result).rejects.toThrow("the device was lost");
    clock.turn(0.2);
    expect(submitted).toHaveLength(0);
    void poker.during(pending().promise);
    clock.turn(0.2);
    expect(submitted).toHaveLength(1);
  });

  it("goes on while one of two waits is left", async () => {
    const { poker, clock, submitted } = make();
    const [first, second] = [pending(), pending()];
    const results = [poker.during(first.promise), poker.during(second.promise)];
    first.settle();
    await results[0];
    clock.turn(0.2);
    expect(submitted).toHaveLength(1);
    second.settle();
    await results[1];
    clock.turn(0.2);
    expect(clock.isIdle).toBe(true);
  });

  it("gives up on long waits", () => {
    const { poker, clock, submitted } = make();
    void poker.during(pending().promise);
    for (let i = 0; i < 100; ++i) clock.turn(1);
    expect(submitted.length).toBeLessThanOrEqual(30);
    expect(clock.isIdle).toBe(true);
  });

  it("does nothing when it is off", async () => {
    const { poker, clock, submitted } = make(false);
    const { promise, settle } = pending();
    const result = poker.during(promise);
    expect(clock.isIdle).toBe(true);
    settle();
    expect(await result).toBe(7);
    expect(submitted).toHaveLength(0);
  });
});
