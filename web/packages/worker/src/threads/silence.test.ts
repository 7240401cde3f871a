// When a link counts as broken: after so much silence, and not a moment sooner.
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { SilenceWatch } from "./silence.ts";

let silent: number;
let silentMs: number;
let isExcused: boolean;
let watch: SilenceWatch;

beforeEach(() => {
  vi.useFakeTimers();
  silent = 0;
  isExcused = false;
  watch = new SilenceWatch(() => isExcused, (ms) => {
    silent += 1;
    silentMs = ms;
  });
  watch.start();
});
afterEach(() => vi.useRealTimers());

it("says once that nothing came for six seconds", () => {
  vi.advanceTimersByTime(5999);
  expect(silent).toBe(0);
  vi.advanceTimersByTime(60_000);
  expect(silent).toBe(1);
});

it("takes the server's word for how long that may be", () => {
  watch.limit(3000);
  vi.advanceTimersByTime(2999);
  expect(silent).toBe(0);
  vi.advanceTimersByTime(1);
  expect([silent, silentMs]).toEqual([1, 3000]);
});

it("begins anew with everything that is heard", () => {
  for (let second = 0; second < 60; second += 5) {
    vi.advanceTimersByTime(5000);
    watch.heard();
  }
  expect(silent).toBe(0);
  vi.advanceTimersByTime(6000);
  expect(silent).toBe(1);
});

it("does not count while nothing is expected", () => {
  isExcused = true;
  vi.advanceTimersByTime(60_000);
  isExcused = false;
  vi.advanceTimersByTime(5000);
  expect(silent).toBe(0);
  vi.advanceTimersByTime(1000);
  expect(silent).toBe(1);
});

// A step of half a minute, say: the clock goes on, the timer does not.
it("does not count the time in which its thread was busy", () => {
  vi.setSystemTime(Date.now() + 30_000);
  vi.advanceTimersByTime(5000);
  expect(silent).toBe(0);
});

it("is over with stop", () => {
  watch.stop();
  vi.advanceTimersByTime(60_000);
  expect(silent).toBe(0);
});
