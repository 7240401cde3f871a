// What the page is told, and how often.
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import type { WorkerStatus } from "./messages.ts";
import { StatusBoard } from "./statusBoard.ts";

let heard: WorkerStatus[] = [];
let board: StatusBoard;

beforeEach(() => {
  vi.useFakeTimers();
  heard = [];
  board = new StatusBoard((status) => heard.push(status), () => Date.now());
});
afterEach(() => vi.useRealTimers());

it("publishes at most ten times a second and never loses the last state", () => {
  for (let used = 1; used <= 50; ++used) {
    board.set({ usedBytes: used });
    vi.advanceTimersByTime(10);
  }
  expect(heard.length).toBeLessThanOrEqual(6);
  vi.advanceTimersByTime(100);
  expect(heard.at(-1)?.usedBytes).toBe(50);
  expect(board.current.usedBytes).toBe(50);
  const count = heard.length;
  vi.advanceTimersByTime(10_000);
  expect(heard).toHaveLength(count); // nothing changed, nothing is said
});

it("adds up messages and downloads, which begin anew", () => {
  board.addTraffic(10);
  const progress = (doneBytes: number): void =>
    board.set({ download: { doneBytes, totalBytes: 100 } });
  progress(40);
  progress(100);
  board.set({ download: null });
  progress(5);
  progress(3);
  expect(board.current.trafficBytes).toBe(10 + 100 + 5 + 3);
});

it("flush does not wait, and the timer that was set says nothing again", () => {
  board.set({ message: "one" });
  board.set({ message: "two" });
  board.flush();
  vi.advanceTimersByTime(1000);
  expect(heard.map(({ message }) => message)).toEqual(["one", "two"]);
});

it("counts steps, and takes the speed of the last 32", () => {
  board.addStep(1, 1000);
  expect(board.current).toMatchObject({ rowsComputed: 1, lastStepMs: 1000, rowsPerSecond: 1 });
  for (let i = 0; i < 32; ++i) board.addStep(4, 100);
  const { rowsComputed, stepsComputed, lastStepMs, rowsPerSecond } = board.current;
  expect([rowsComputed, stepsComputed, lastStepMs]).toEqual([129, 33, 100]);
  expect(rowsPerSecond).toBeCloseTo(40); // the slow first step is out of the window
  board.addStep(5, 0);
  expect(Number.isFinite(board.current.rowsPerSecond)).toBe(true);
});
