import { describe, expect, it } from "vitest";

import { LoadPace } from "./loadPace.ts";

const kMiB = 2 ** 20;

describe("what is on its way beside steps", () => {
  it.each([[0.5, 1], [5, 1], [20, 1], [60, 3], [320, 16], [900, 16]])(
    "of %d ms: %d MiB", async (ms, mebibytes) => {
      let time = 0;
      const pace = new LoadPace(() => time);
      await pace.step(() => Promise.resolve(void (time += ms)));
      expect(pace.batchBytes).toBe(mebibytes * kMiB);
      time += 249;
      expect(pace.batchBytes).toBe(mebibytes * kMiB);
      time += 1;
      expect(pace.batchBytes).toBe(16 * kMiB); // no step came for long
    });

  it("is little while tokens are made, however long that takes, and much before any", async () => {
    let time = 0;
    const pace = new LoadPace(() => time);
    expect(pace.batchBytes).toBe(16 * kMiB);
    await pace.generate(() => {
      time += 5000;
      expect(pace.batchBytes).toBe(kMiB);
      return Promise.resolve();
    });
    expect(pace.batchBytes).toBe(kMiB);
  });

  it("a step that fails is over", async () => {
    let time = 0;
    const pace = new LoadPace(() => time);
    await expect(pace.step(() => Promise.reject(new Error("lost")))).rejects.toThrow("lost");
    time += 300;
    expect(pace.batchBytes).toBe(16 * kMiB);
  });
});
