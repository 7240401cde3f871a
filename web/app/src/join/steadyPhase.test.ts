import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { SteadyPhase } from "./steadyPhase.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

it("computing goes on through the pauses between steps, and ends a moment later", () => {
  const shown: string[] = [];
  const steady = new SteadyPhase((phase) => shown.push(phase));
  steady.see("ready");
  for (let step = 0; step < 50; step += 1) {
    steady.see("computing");
    vi.advanceTimersByTime(5);
    steady.see("ready");
    vi.advanceTimersByTime(100);
  }
  expect(shown).toEqual(["ready", "computing"]);
  vi.advanceTimersByTime(1399);
  expect(shown).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(shown).toEqual(["ready", "computing", "ready"]);
});

it("everything else is shown at once", () => {
  const shown: string[] = [];
  const steady = new SteadyPhase((phase) => shown.push(phase));
  steady.see("computing");
  steady.see("ready");
  steady.see("reconnecting");
  vi.advanceTimersByTime(10_000);
  expect(shown).toEqual(["computing", "reconnecting"]);
});
