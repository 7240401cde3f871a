// Pauses between attempts to connect.
import { expect, it } from "vitest";

import { Backoff } from "./backoff.ts";

it("doubles from one second to thirty and begins again after a good connection", () => {
  const backoff = new Backoff(() => 0.5); // the middle: no jitter
  const pauses = Array.from({ length: 7 }, () => backoff.next());
  expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  backoff.reset();
  expect(backoff.next()).toBe(1000);
});

it("spreads workers that lost one server over half of the pause", () => {
  expect(new Backoff(() => 0).next()).toBe(750);
  expect(new Backoff(() => 1 - 2 ** -32).next()).toBeCloseTo(1250);
});
