// Asking GPUs for memory: fake ones whose memory ends somewhere, and the one of this machine.
import { describe, expect, it, vi } from "vitest";

import { sharedNodeGpu } from "../test/nodeGpu.ts";
import { findMemory, hasOwnMemory, probeWebGpu } from "./find.ts";
import { probeMemory } from "./probe.ts";

const gpu = await sharedNodeGpu();
const kMiB = 2 ** 20;
const kGiB = 2 ** 30;

interface FakeOptions {
  readonly vendor: string;
  readonly architecture: string;
  readonly memoryBytes: number;
  readonly ownBytes: number; // what lies behind these is slow
  readonly endsWhenFull: boolean; // the device is lost in place of a refusal
  readonly throws: boolean; // createBuffer does
}

// A GPU that counts what is taken of it. Its clock is what it takes: 1 ms for 100 MiB.
class FakeGpu {
  readonly options: FakeOptions;
  readonly asked: number[] = []; // MiB of each step
  heldBytes = 0;
  peakBytes = 0;
  devices = 0;
  ms = 0;
  stallMs = 0; // of the next step

  constructor(options: Partial<FakeOptions> = {}) {
    this.options = {
      vendor: "nvidia", architecture: "ada", memoryBytes: 24 * kGiB, ownBytes: Infinity,
      endsWhenFull: false, throws: false, ...options,
    };
  }

  get gpu(): GPU {
    const { vendor, architecture } = this.options;
    const limits = {
      maxBufferSize: 4 * kGiB, maxStorageBufferBindingSize: 2 * kGiB,
      maxComputeWorkgroupStorageSize: 32_768,
    };
    const info = { vendor, architecture, isFallbackAdapter: architecture === "swiftshader" };
    const adapter = {
      info, limits, features: new Set(), requestDevice: () => Promise.resolve(this.device()),
    };
    return { requestAdapter: () => Promise.resolve(adapter) } as unknown as GPU;
  }

  device(): GPUDevice {
    ++this.devices;
    const scopes: string[] = [];
    let isFull = false;
    const clearBuffer = ({ size = 0, factor = 1 }: { size?: number; factor?: number }): void => {
      this.ms += (factor * size) / (100 * kMiB) + this.stallMs;
      this.stallMs = 0;
    };
    const createBuffer = ({ size }: GPUBufferDescriptor): object => {
      if (this.options.throws) throw new RangeError("too large");
      this.asked.push(size / kMiB);
      isFull = this.heldBytes + size > this.options.memoryBytes;
      if (isFull && this.options.endsWhenFull) throw new Error("the device was lost");
      if (isFull) return { destroy: () => undefined };
      this.heldBytes += size;
      this.peakBytes = Math.max(this.peakBytes, this.heldBytes);
      const factor = this.heldBytes > this.options.ownBytes ? 20 : 1;
      return { size, factor, destroy: () => (this.heldBytes -= size) };
    };
    return {
      limits: { maxBufferSize: 4 * kGiB },
      pushErrorScope: (filter: string) => scopes.push(filter),
      popErrorScope: () => {
        const lack = scopes.pop() === "out-of-memory" && isFull;
        return Promise.resolve(lack ? { message: "full" } : null);
      },
      createBuffer,
      createCommandEncoder: () => ({ clearBuffer, finish: () => undefined }),
      queue: { submit: () => undefined, onSubmittedWorkDone: () => Promise.resolve() },
      destroy: () => undefined,
    } as unknown as GPUDevice;
  }
}

// What is timed meanwhile is timed by what the GPU takes.
async function withClock<T>(fake: FakeGpu, work: () => Promise<T>): Promise<T> {
  const now = vi.spyOn(performance, "now").mockImplementation(() => fake.ms);
  try {
    return await work();
  } finally {
    now.mockRestore();
  }
}

const kFind = { sharedBytes: 4 * kGiB, allowsSoftware: false, onBytes: (): void => undefined };

describe("asking for memory", () => {
  it.skipIf(!gpu)("gets what there is, and frees it", { timeout: 600_000 }, async () => {
    expect(await probeMemory(gpu!.device, 10_000_001, { leastStepBytes: 4 << 20 }))
      .toEqual({ bytes: 10_000_001, isLost: false });
  });

  it("takes pieces that double, halves them where one is refused, and gives all back", async () => {
    const fake = new FakeGpu({ memoryBytes: 3200 * kMiB });
    const told: number[] = [];
    const options = { onBytes: (bytes: number) => told.push(bytes / kMiB) };
    expect(await probeMemory(fake.device(), 8 * kGiB, options))
      .toEqual({ bytes: 3200 * kMiB, isLost: false });
    expect(fake.asked)
      .toEqual([64, 128, 256, 512, 1024, 1024, 1024, 512, 256, 128, 128, 64, 64]);
    expect(told).toEqual([64, 192, 448, 960, 1984, 3008, 3136, 3200]);
    expect(fake.heldBytes).toBe(0);
  });

  it.each([0, 63 * kMiB, 64 * kMiB, kGiB + 5, 23.4 * kGiB])(
    "finds memory that ends at %d bytes to a step", async (memoryBytes) => {
      const { bytes } = await probeMemory(new FakeGpu({ memoryBytes }).device(), 64 * kGiB);
      expect(bytes).toBeLessThanOrEqual(memoryBytes);
      expect(bytes).toBeGreaterThan(memoryBytes - 64 * kMiB);
    });

  it("never takes more than is wanted, nor pieces larger than a buffer may be", async () => {
    const fake = new FakeGpu();
    expect((await probeMemory(fake.device(), 5 * kGiB + 1)).bytes).toBe(5 * kGiB + 1);
    expect(fake.peakBytes).toBe(5 * kGiB + 4);
    const small = { ...fake.device(), limits: { maxBufferSize: 256 * kMiB } };
    fake.asked.length = 0;
    await probeMemory(small as unknown as GPUDevice, 5 * kGiB);
    expect(Math.max(...fake.asked)).toBe(256);
  });

  it("a device that is lost, or throws, has given what it gave", async () => {
    const lost = new FakeGpu({ memoryBytes: 200 * kMiB, endsWhenFull: true });
    expect(await probeMemory(lost.device(), kGiB)).toEqual({ bytes: 192 * kMiB, isLost: true });
    expect(lost.heldBytes).toBe(0);
    const throwing = new FakeGpu({ throws: true }).device();
    expect(await probeMemory(throwing, kGiB)).toEqual({ bytes: 0, isLost: true });
  });

  it("a device that was lost is waited for, so that the next one computes", async () => {
    const sleeps: number[] = [];
    const sleep = (ms: number): Promise<void> => Promise.resolve(void sleeps.push(ms));
    const fake = new FakeGpu({ memoryBytes: 200 * kMiB, endsWhenFull: true });
    expect(await probeWebGpu(fake.gpu, kGiB, sleep)).toBe(192 * kMiB);
    expect([fake.devices, sleeps.length]).toEqual([2, 1]);
    const refusing = new FakeGpu({ memoryBytes: 200 * kMiB });
    expect(await probeWebGpu(refusing.gpu, kGiB, sleep)).toBe(192 * kMiB);
    expect([refusing.devices, sleeps.length]).toEqual([1, 1]);
  });
});

describe("finding what a GPU has", () => {
  it("asks a card until it refuses", async () => {
    const fake = new FakeGpu({ memoryBytes: 22.5 * kGiB });
    expect(await findMemory(fake.gpu, kFind)).toEqual({ bytes: 22.5 * kGiB, isOwn: true });
  });

  it("ends where the memory of the system begins, which is slower", async () => {
    const fake = new FakeGpu({ memoryBytes: 40 * kGiB, ownBytes: 8 * kGiB });
    const { bytes } = await withClock(fake, () => findMemory(fake.gpu, kFind));
    expect(bytes).toBeGreaterThan(7 * kGiB);
    expect(bytes).toBeLessThanOrEqual(8 * kGiB);
  });

  it("a step that was held up once counts", async () => {
    const fake = new FakeGpu({ memoryBytes: 12 * kGiB });
    const onBytes = (bytes: number): void => {
      if (bytes > 5 * kGiB && bytes <= 6 * kGiB) fake.stallMs = 900;
    };
    const { bytes } = await withClock(fake, () => findMemory(fake.gpu, { ...kFind, onBytes }));
    expect(bytes).toBe(12 * kGiB);
    expect(fake.ms).toBeGreaterThan(900);
  });

  it("takes no more than it is told of memory that is the system's, too", async () => {
    const fake = new FakeGpu({ vendor: "apple", architecture: "metal-3", memoryBytes: 48 * kGiB });
    expect(await findMemory(fake.gpu, kFind)).toEqual({ bytes: 4 * kGiB, isOwn: false });
    expect(fake.peakBytes).toBe(4 * kGiB);
  });

  it("a software adapter counts for those who want it", async () => {
    const fake = new FakeGpu({ vendor: "google", architecture: "swiftshader" });
    await expect(findMemory(fake.gpu, kFind)).rejects.toThrow("no graphics processor");
    expect(fake.peakBytes).toBe(0);
    expect(await findMemory(fake.gpu, { ...kFind, allowsSoftware: true }))
      .toEqual({ bytes: 4 * kGiB, isOwn: false });
    await expect(findMemory(undefined, kFind)).rejects.toThrow("no WebGPU adapter");
  });

  it.each([
    ["nvidia", "ada", true], ["amd", "rdna-3", true], ["intel", "gen-12lp", false],
    ["intel", "gen-12hp", true], ["intel", "xe-2hpg", true], ["intel", "xe-2lpg", false],
    ["apple", "metal-3", false], ["qualcomm", "adreno-7xx", false], ["", "", false],
  ])("%s %s has memory of its own: %s", (vendor, architecture, isOwn) => {
    expect(hasOwnMemory({ vendor, architecture })).toBe(isOwn);
  });
});
