// Waiting for what may never come.
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { within } from "./within.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("gives what comes in time, and its error", async () => {
  const late = vi.fn();
  await expect(within(1000, Promise.resolve(7), late)).resolves.toBe(7);
  await expect(within(1000, Promise.reject(new Error("No.")), late)).rejects.toThrow("No.");
  await vi.advanceTimersByTimeAsync(2000);
  expect(late).not.toHaveBeenCalled();
});

it("gives up, and hands over what comes afterwards", async () => {
  const late = vi.fn();
  let come: (value: number) => void = () => undefined;
  const work = new Promise<number>((resolve) => (come = resolve));
  const waited = expect(within(1000, work, late)).rejects.toThrow("nothing came within 1 s");
  await vi.advanceTimersByTimeAsync(1000);
  await waited;
  come(9);
  await vi.advanceTimersByTimeAsync(0);
  expect(late).toHaveBeenCalledExactlyOnceWith(9);
});
