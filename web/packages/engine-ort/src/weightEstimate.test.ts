// What the heap tells of the weights in it, with numbers that were measured on weft-tiny (f16).
import { describe, expect, it } from "vitest";

import { weightFactor } from "./weightEstimate.ts";
import type { HeapMeasurement } from "./weightEstimate.ts";

const kGuess = 2.75;
const kMeasured: HeapMeasurement = {
  loadedBytes: 5_249_280, // layers 7, 8 and the head
  largestLayerBytes: 2_098_176,
  heapBytes: 18_153_472,
  bytesBeforeGrowth: 12_320_768,
  initialBytes: 16_777_216,
};

describe("the factor of a small load", () => {
  // Heap by weights would say 3.5: with that, the same layers would not fit where they are.
  it("stays the guess, however much the heap has grown for it", () => {
    expect(weightFactor(kGuess, kMeasured)).toBe(kGuess);
  });

  it("stays the guess where the heap had room for it", () => {
    expect(weightFactor(kGuess, { ...kMeasured, heapBytes: 0, bytesBeforeGrowth: 0 })).toBe(kGuess);
  });

  it("is the guess before anything is loaded", () => {
    expect(weightFactor(kGuess, { ...kMeasured, loadedBytes: 0 })).toBe(kGuess);
  });
});

describe("the factor of a large load", () => {
  const large = { ...kMeasured, loadedBytes: 1e9, largestLayerBytes: 1e7 };

  it("is at most what the heap has room for", () => {
    const measured = { ...large, heapBytes: 2e9, bytesBeforeGrowth: 1.8e9 };
    expect(weightFactor(kGuess, measured)).toBeCloseTo(2.017, 3);
  });

  it("is at least what was taken before the heap grew for the last time", () => {
    const measured = { ...large, heapBytes: 4e9, bytesBeforeGrowth: 3.8e9 };
    expect(weightFactor(kGuess, measured)).toBeCloseTo(3.7625, 4);
  });

  it("is the guess between the two", () => {
    const measured = { ...large, heapBytes: 2.8e9, bytesBeforeGrowth: 2.6e9 };
    expect(weightFactor(kGuess, measured)).toBe(kGuess);
  });

  // On a GPU the weights are not in the heap.
  it("is never less than the weights", () => {
    const measured = { ...large, heapBytes: 1e7, bytesBeforeGrowth: 0 };
    expect(weightFactor(1.25, measured)).toBe(1);
  });
});
