// How many threads are chosen, of tables of times; and that the kernel which they are timed with
// computes the same on any number of them.
import { describe, expect, it } from "vitest";

import { MemoryTuneStore } from "@weft/engine/tune/store.ts";

import { chooseThreads, fastestThreads } from "./threadChoice.ts";
import { kRoundBytes, ThreadRound } from "./threadRound.ts";

const kToday = Date.UTC(2026, 0, 31);
const kHourMs = 3600 * 1000;

// A device that takes so long with 1, 2, 4, ... threads, and what it was asked.
function device(cores: number, ...timesMs: number[]) {
  const asked: number[] = [];
  const timeRound = (threads: number): Promise<number> => {
    asked.push(threads);
    return Promise.resolve(timesMs[Math.log2(threads)]!);
  };
  return { cores, userAgent: "a browser", timeRound, nowMs: kToday, asked };
}

describe("fastestThreads", () => {
  it.each([
    ["one core is not measured", device(1), 1, []],
    ["what a browser tells is the most", device(3, 8, 4, 2), 2, [1, 2, 1]],
    ["two cores that are four to the browser", device(4, 8, 4.2, 6), 2, [1, 2, 1, 4]],
    ["cores that are busy", device(4, 8, 7.9, 2), 1, [1, 2]],
    ["a gain below a quarter", device(2, 8, 6.8), 1, [1, 2]],
    ["a gain above it", device(2, 8, 6.2), 2, [1, 2, 1]],
    ["threads that do not start", device(8, 8, Infinity), 1, [1, 2]],
    ["many cores", device(64, 8, 4, 2, 1, 0.5), 8, [1, 2, 1, 4, 2, 8, 4]],
  ])("%s", async (_, of, threads, asked) => {
    expect(await fastestThreads(of)).toBe(threads);
    expect(of.asked).toEqual(asked);
  });

  it("does not count a gain over what was slow by chance", async () => {
    const times = [8, 4, 4.5];
    const timeRound = (): Promise<number> => Promise.resolve(times.shift()!);
    expect(await fastestThreads({ ...device(2), timeRound })).toBe(1);
    expect(times).toEqual([]);
  });
});

describe("chooseThreads", () => {
  it("measures once a day for a browser on a device", async () => {
    const store = new MemoryTuneStore();
    const first = device(4, 8, 4, 2);
    expect(await chooseThreads(first, store)).toBe(4);
    const again = device(4, 8, 8, 8);
    expect(await chooseThreads(again, store)).toBe(4);
    expect(again.asked).toEqual([]);
    expect(await chooseThreads({ ...again, userAgent: "its next version" }, store)).toBe(1);
    expect(await chooseThreads(device(2, 8, 4), store)).toBe(2);
    const later = { ...again, nowMs: kToday + 23 * kHourMs };
    expect(await chooseThreads(later, store)).toBe(4);
    expect(await chooseThreads({ ...later, nowMs: kToday + 25 * kHourMs }, store)).toBe(1);
  });

  it.each([
    "", "1", `0 ${kToday}`, `9 ${kToday}`, `2.5 ${kToday}`, `1000 ${kToday}`, "many many",
    `1 ${kToday + kHourMs}`, "1 99999999999999999999",
  ])("does not believe '%s'", async (kept) => {
    const store = { get: () => Promise.resolve(kept), set: () => Promise.resolve() };
    expect(await chooseThreads(device(2, 8, 4), store)).toBe(2);
  });

  it("does without a store, and with one that fails", async () => {
    const failing = {
      get: () => Promise.reject(new Error("no file")),
      set: () => Promise.reject(new Error("no file")),
    };
    expect(await chooseThreads(device(2, 8, 4), null)).toBe(2);
    expect(await chooseThreads(device(2, 8, 4), failing)).toBe(2);
  });
});

describe("ThreadRound", () => {
  // Row r of the matrix has (512 r + i) mod 7 - 3 at i, the vector i mod 5 - 2.
  it.each([1, 2, 3, 8])("multiplies all rows on %i threads", (threads) => {
    const round = new ThreadRound(new SharedArrayBuffer(kRoundBytes), threads);
    round.fill();
    for (let thread = 0; thread < threads; ++thread) round.compute(thread);
    const product = (row: number): number => {
      const terms = Array.from({ length: 512 }, (_, i) => ((512 * row + i) % 7 - 3) * (i % 5 - 2));
      return terms.reduce((sum, term) => sum + term);
    };
    expect([...round.output]).toEqual(Array.from({ length: 512 }, (_, row) => product(row)));
  });

  it("gives up threads that do not answer", () => {
    const round = new ThreadRound(new SharedArrayBuffer(kRoundBytes), 2);
    expect(round.run(5)).toBe(false);
  });
});
