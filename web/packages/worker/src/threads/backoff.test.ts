// Pauses between attempts to connect.
import { expect, it } from "vitest";

import { Backoff } from "./backoff.ts";

it("begins at once, doubles from one second to thirty, begins again when it was good", () => {
  const backoff = new Backoff(() => 0.5); // the middle: no jitter
  const pauses = Array.from({ length: 8 }, () => backoff.next());
  expect(pauses).toEqual([0, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  backoff.reset();
  expect([backoff.next(), backoff.next()]).toEqual([0, 1000]);
});

it("is shortened by a limit, which changes none of the pauses after it", () => {
  const backoff = new Backoff(() => 0.5);
  expect([250, 250, 250].map((limitMs) => backoff.next(limitMs))).toEqual([0, 250, 250]);
  expect(backoff.next()).toBe(4000);
});

it("spreads workers that lost one server over half of the pause", () => {
  for (const [random, pauseMs] of [[0, 750], [1 - 2 ** -32, 1250]] as const) {
    const backoff = new Backoff(() => random);
    backoff.next();
    expect(backoff.next()).toBeCloseTo(pauseMs);
  }
});
