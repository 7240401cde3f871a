// What may go wrong with a device, and what loading takes of the tab's memory, on whatever WebGPU
// device Node has.
import { describe, expect, it } from "vitest";

import { EngineError } from "./base/error.ts";
import type { Gpu } from "./gpu/open.ts";
import { Pipelines } from "./gpu/pipelines.ts";
import { rowKernels } from "./kernels/rows/rows.ts";
import { DType } from "./program/ir.ts";
import type { Run, WeightSource } from "./stage/stageEngine.ts";
import { openNodeGpu, sharedNodeGpu } from "./test/nodeGpu.ts";
import { ToyModel } from "./test/toyModel.ts";
import { WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const hasGc = typeof globalThis.gc === "function";
const kHidden = { kind: "hidden" } as const;
const kBytes = new Uint8Array(0);

const view = (buffer: number, columns = 32, firstColumn = 0) => ({ buffer, firstColumn, columns });
// A layer that leaves its rows as they are: x + 0 x.
const weight = {
  dtype: DType.f32,
  shape: [32, 32],
  data: new Uint8Array(32 * 32 * 4),
  scale: kBytes,
  zero: kBytes,
};
const toy = new ToyModel(
  new Map([
    [
      1,
      {
        buffers: [32, 32],
        weights: [weight],
        ops: [
          {
            kind: {
              case: "matmul",
              value: { in: view(0), out: view(1), weight: { weight: 0, firstRow: 0, rows: 32 } },
            },
          },
          { kind: { case: "add", value: { a: view(0), b: view(1), out: view(0) } } },
        ],
        input: 0,
        output: 0,
      },
    ],
  ]),
);
const only = { first: 1, end: 2 };
const run: Run = { session: 1, generation: 0, firstPosition: 0, count: 1, output: kHidden };
const input = {
  layers: only,
  runs: [run],
  tokenIds: new Int32Array(0),
  hidden: new Float32Array(32).fill(1),
};

// A device that does as the other one, but for `changed`.
function wrapped(of: Gpu, changed: Partial<Record<keyof GPUDevice, unknown>>): Gpu {
  const device = new Proxy(of.device, {
    get(target, key) {
      if (key in changed) return changed[key as keyof GPUDevice];
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { ...of, device };
}

describe.skipIf(!gpu)("a kernel that the driver refuses", { timeout: 600_000 }, () => {
  const refusing = (name: string): Gpu => {
    const real = gpu!.device.createComputePipelineAsync.bind(gpu!.device);
    const createComputePipelineAsync = (descriptor: GPUComputePipelineDescriptor) =>
      descriptor.label?.startsWith(name)
        ? Promise.reject(new Error("the driver gave up"))
        : real(descriptor);
    return wrapped(gpu!, { createComputePipelineAsync });
  };

  it("fails the load by name and leaves nothing behind", async () => {
    const engine = new WebGpuEngine(refusing("matvec"));
    await expect(engine.load(only, toy)).rejects.toMatchObject({
      name: "KernelRefusedError",
      code: "unavailable",
      message: expect.stringContaining("refuses kernel 'matvec") as string,
    });
    expect(engine.isLoaded(only)).toBe(false);
    expect(engine.memory().weightBytes).toBe(0);
    engine.freeBuffers();
  });

  it("gives way to a simpler one where there is one", async () => {
    const plain = rowKernels.elementwise();
    const clever = { ...plain, key: "clever", code: "this is no WGSL", simpler: plain };
    const pipelines = Pipelines.of(refusing("clever").device);
    expect(await pipelines.get(clever)).toBe(await pipelines.get(plain));
  });

  it("is no fault of the device, which goes on", async () => {
    const uncaptured: string[] = [];
    const { device } = gpu!;
    const listen = ({ error }: GPUUncapturedErrorEvent): number => uncaptured.push(error.message);
    device.addEventListener("uncapturederror", listen);
    const refused = { ...rowKernels.elementwise(), key: "refused", code: "this is no WGSL" };
    await expect(Pipelines.of(wrapped(gpu!, {}).device).get(refused)).rejects.toThrow(
      "refuses kernel 'refused'",
    );
    await device.queue.onSubmittedWorkDone();
    device.removeEventListener("uncapturederror", listen);
    expect(uncaptured).toEqual([]);
  });
});

describe.skipIf(!gpu)("a device that is lost", { timeout: 600_000 }, () => {
  it("in the middle of a load", async () => {
    const own = (await openNodeGpu())!;
    const engine = new WebGpuEngine(own);
    let reads = 0;
    const source: WeightSource = {
      readBlob: (digest) => toy.readBlob(digest),
      readRange: (digest, offset, byteCount) => {
        if (++reads === 2) own.device.destroy();
        return toy.readRange(digest, offset, byteCount);
      },
      loaded: () => toy.loaded(),
      readGraph: () => toy.readGraph(),
      layerBlobs: () => toy.layerBlobs(),
      layerProgram: (layer) => toy.layerProgram(layer),
      layerKvBytes: () => toy.layerKvBytes(),
    };
    await expect(engine.load(only, source)).rejects.toMatchObject({ code: "unavailable" });
    expect(reads).toBeGreaterThanOrEqual(2);
    expect(engine.isLoaded(only)).toBe(false);
    await expect(engine.load(only, toy)).rejects.toThrow("The GPU was lost");
  });

  it("in the middle of a step", async () => {
    const own = (await openNodeGpu())!;
    const engine = new WebGpuEngine(own);
    await engine.load(only, toy);
    expect((await engine.step(input)).hidden).toEqual(input.hidden);
    const next = { ...input, runs: [{ ...run, firstPosition: 1 }] };
    const step = engine.step(next);
    own.device.destroy();
    await expect(step).rejects.toBeInstanceOf(EngineError);
    await expect(engine.step(next)).rejects.toThrow("The GPU was lost");
    expect(engine.heldSession(1, only).positions).toBe(1);
  });

  it("says why to whoever waits for it", async () => {
    const lost = Promise.resolve({ reason: "unknown", message: "the driver restarted" });
    const engine = new WebGpuEngine(wrapped(gpu!, { lost }));
    expect(await engine.lost).toBe("the driver restarted");
    await expect(engine.load(only, toy)).rejects.toThrow("The GPU was lost: the driver restarted.");
  });
});

// An embedding of 96 MiB that comes from nowhere.
class LargeSource implements WeightSource {
  peakBytes = 0;
  readonly #program: ToyModel;
  readonly #table: string;

  constructor(rows: number, columns: number) {
    const table = { dtype: DType.f32, shape: [rows, columns], scale: kBytes, zero: kBytes };
    const value = { weight: 0, out: view(0, columns), scale: 1 };
    const layer = { buffers: [columns], ops: [{ kind: { case: "embed", value } }] as never };
    const weights = [{ ...table, data: new Uint8Array(rows * columns * 4) }];
    this.#program = new ToyModel(
      new Map([[0, { ...layer, weights, input: null, output: 0 }]]),
      false,
    );
    this.#table = this.#program.layerProgram(0);
  }

  measure(): void {
    const { heapUsed, external } = process.memoryUsage(); // external: array buffers, too
    this.peakBytes = Math.max(this.peakBytes, heapUsed + external);
  }

  readBlob(digest: string): Promise<Uint8Array<ArrayBuffer>> {
    return this.#program.readBlob(digest);
  }
  readRange(_: string, __: number, byteCount: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(byteCount).fill(1);
    this.measure();
    return Promise.resolve(bytes);
  }
  loaded = (): Promise<void> => Promise.resolve();
  readGraph = (): Promise<Uint8Array<ArrayBuffer>> => Promise.reject(new Error("no graph"));
  layerBlobs = (): readonly string[] => [];
  layerProgram = (): string => this.#table;
  layerKvBytes = (): number => 0;
}

describe.skipIf(!gpu)("loading a large layer", { timeout: 600_000 }, () => {
  it("takes far less of the tab's memory than the layer, and tells how far it is", async () => {
    const tableBytes = 96 << 20;
    const source = new LargeSource(tableBytes / 1024, 256);
    if (hasGc) globalThis.gc!();
    source.measure();
    const before = source.peakBytes;
    const engine = new WebGpuEngine(gpu!);
    let told = 0;
    await engine.load({ first: 0, end: 1 }, source, (bytes) => {
      told += bytes;
      source.measure();
    });
    expect(told).toBe(tableBytes);
    expect(engine.memory().weightBytes).toBeGreaterThanOrEqual(tableBytes);
    expect(source.peakBytes - before).toBeLessThanOrEqual(64 << 20);
    engine.freeBuffers();
  });
});
