// The rig on Dawn's null backend, which computes nothing: that it runs, ends in time and is kept.
import { describe, expect, it } from "vitest";

import { openGpu } from "../gpu/open.ts";
import type { Gpu } from "../gpu/open.ts";
import { makeWebGpuEngine, tuneFor } from "../makeWebGpuEngine.ts";
import { kDefaultOptions } from "../webgpuEngine.ts";
import { countFor } from "./rig.ts";
import { MemoryTuneStore } from "./store.ts";

async function openNull(): Promise<{ instance: GPU; gpu: Gpu } | null> {
  try {
    const { create } = await import("webgpu");
    const instance = create(["backend=null"]); // kept: Dawn dies when it is collected
    return { instance, gpu: await openGpu(instance) };
  } catch {
    return null;
  }
}

const opened = await openNull();

describe("how many dispatches a sample has", () => {
  // 10 us each; a browser shows multiples of 0.1 ms.
  const rounded = (count: number): Promise<number> =>
    Promise.resolve(Math.floor(count / 10) / 10 / count);

  it("is enough for rounded timestamps", async () => {
    const count = await countFor(rounded, 4, 8);
    expect(count).toBeGreaterThanOrEqual(200);
    expect(count).toBeLessThanOrEqual(450);
    expect(count % 8).toBe(0);
  });

  it("is two where each takes longer than a sample, and no more than 1,024", async () => {
    expect(await countFor(() => Promise.resolve(9), 4, 8)).toBe(2);
    expect(await countFor(() => Promise.resolve(0), 4, 8)).toBe(1024);
  });
});

describe.skipIf(!opened)("tuning a device", { timeout: 120_000 }, () => {
  it("ends in time, and the second time at once", async () => {
    const store = new MemoryTuneStore();
    const { gpu } = opened!;
    const errors: string[] = [];
    gpu.device.addEventListener("uncapturederror", ({ error }) => errors.push(error.message));
    const options = { ...kDefaultOptions, memoryLimitBytes: 64 << 20 };
    const first = await tuneFor(gpu, options, store);
    // The budget is 2 s: a machine with other work to do may notice its end later.
    expect(first.ms).toBeLessThan(20_000);
    const again = await tuneFor(gpu, options, store);
    // A first tuning that ran out of time keeps nothing: the second measures anew, and may choose
    // otherwise.
    if (first.how === "measured") {
      expect(again.how).toBe("stored");
      expect(again.arithmetic).toEqual(first.arithmetic);
    }
    const exact = await tuneFor(gpu, { ...options, kvDtype: "f32" }, store);
    expect(exact.arithmetic.products).toBe("f32");
    expect(exact.how).not.toBe("stored");
    await gpu.device.queue.onSubmittedWorkDone();
    expect(errors).toEqual([]);
  });

  it("is told by the engine", async () => {
    const forced = { products: "f32", lanes: "shared", outputs: 8, tileRows: 2 } as const;
    const options = { ...kDefaultOptions, tuning: forced };
    const engine = await makeWebGpuEngine(opened!.instance, options);
    expect(engine.detail).toBe(
      "f32, lanes by workgroup memory, 8 outputs, tiles of 2; forced",
    );
    await engine.dispose();
  });
});
