// Layers that are brought to the device beside steps: taken over, dropped, refused; and what a lack
// of memory in the midst of it leaves behind.
import { afterEach, describe, expect, it } from "vitest";

import type { Gpu } from "../gpu/open.ts";
import type { LayerRange, StepOutput } from "../stage/stageEngine.ts";
import { sharedNodeGpu } from "../test/nodeGpu.ts";
import { kShapes, RandomModel } from "../test/randomModel.ts";
import { kDefaultOptions, WebGpuEngine } from "../webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const kAll = { first: 0, end: 4 };
const kBegin = { first: 0, end: 2 };
const kRest = { first: 2, end: 4 };

// The model, whose ranges wait for a gate; a failure comes instead of the next one.
class GatedModel extends RandomModel {
  gate: Promise<void> = Promise.resolve();
  failure: Error | null = null;
  reads = 0;

  override async readRange(
    ...range: Parameters<RandomModel["readRange"]>
  ): Promise<Uint8Array<ArrayBuffer>> {
    ++this.reads;
    await this.gate;
    const { failure } = this;
    this.failure = null;
    if (failure) throw failure;
    return await super.readRange(...range);
  }
}

let engines: WebGpuEngine[] = [];
afterEach(() => {
  for (const engine of engines.splice(0)) engine.freeBuffers();
});

function engineOn(on: Gpu): WebGpuEngine {
  const engine = new WebGpuEngine(on, kDefaultOptions);
  engines = [...engines, engine];
  return engine;
}

// One row of a session through layers, which keep its keys and values.
async function step(
  engine: WebGpuEngine,
  layers: LayerRange,
  position: number,
  hidden = new Float32Array(0),
): Promise<StepOutput> {
  const kind = layers.end === kAll.end ? "logits" : "hidden";
  const tokenIds = Int32Array.from(layers.first === 0 ? [7 + position] : []);
  const run = {
    session: 1, generation: 0, firstPosition: position, count: 1, output: { kind } as const,
  };
  return await engine.step({ layers, runs: [run], tokenIds, hidden });
}

// A device that says of the next command that it had no memory for it, where it is told to.
function shortOfMemory(): { gpu: Gpu; isShort: (is: boolean) => void } {
  let isShort = false;
  const scopes: string[] = [];
  const device = new Proxy(gpu!.device, {
    get(target, key) {
      if (key === "pushErrorScope") {
        return (filter: GPUErrorFilter) => {
          scopes.push(filter);
          target.pushErrorScope(filter);
        };
      }
      if (key === "popErrorScope") {
        return async () => {
          const lacks = scopes.pop() === "out-of-memory" && isShort;
          const error = await target.popErrorScope();
          return lacks ? { message: "no memory" } : error;
        };
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return { gpu: { ...gpu!, device }, isShort: (is) => (isShort = is) };
}

describe.skipIf(!gpu)("layers that are brought ahead", { timeout: 600_000 }, () => {
  it("come beside steps, and compute what layers do that were loaded at once", async () => {
    const model = new GatedModel(kShapes["tiny"]!);
    const whole = engineOn(gpu!);
    await whole.load(kAll, model);
    const engine = engineOn(gpu!);
    await engine.load(kBegin, model);
    let open = (): void => undefined;
    model.gate = new Promise((resolve) => (open = resolve));
    const ahead = [2, 3].map((layer) => engine.loadAhead(layer, model));
    const hidden = [await step(engine, kBegin, 0), await step(engine, kBegin, 1)];
    expect(engine.isLoaded(kRest)).toBe(false);
    open();
    await Promise.all(ahead);
    hidden.push(await step(engine, kBegin, 2));
    const { reads } = model;
    await engine.load(kRest, model);
    expect(model.reads).toBe(reads); // nothing was read once more
    expect(engine.memory().weightBytes).toBe(whole.memory().weightBytes);
    for (const [position, rows] of hidden.entries()) {
      const { logits } = await step(engine, kRest, position, rows.hidden as never);
      expect(logits).toEqual((await step(whole, kAll, position)).logits);
    }
  });

  it("are asked for while they are still coming", async () => {
    const model = new GatedModel(kShapes["tiny"]!);
    const engine = engineOn(gpu!);
    const ahead = engine.loadAhead(2, model);
    await engine.load({ first: 0, end: 4 }, model);
    await ahead;
    await engine.loadAhead(2, model); // it is there
    expect(engine.isLoaded(kAll)).toBe(true);
    await engine.unload(kAll);
    expect(engine.memory().weightBytes).toBe(0);
  });

  it("free their memory where nobody takes them, also those that are still coming", async () => {
    const model = new GatedModel(kShapes["tiny"]!);
    const engine = engineOn(gpu!);
    await engine.load(kBegin, model);
    const { weightBytes } = engine.memory();
    await engine.loadAhead(2, model);
    expect(engine.memory().weightBytes).toBeGreaterThan(weightBytes);
    const coming = engine.loadAhead(3, model);
    await engine.unload(kRest);
    await coming;
    expect(engine.memory().weightBytes).toBe(weightBytes);
    await engine.load(kRest, model);
    expect((await step(engine, kAll, 0)).logits.length).toBe(300);
  });

});

describe.skipIf(!gpu)("layers that cannot be brought", { timeout: 600_000 }, () => {
  it("leave nothing behind, and are loaded when they are asked for", async () => {
    const model = new GatedModel(kShapes["tiny"]!);
    const engine = engineOn(gpu!);
    model.failure = new Error("the disk is gone");
    await expect(engine.loadAhead(1, model)).rejects.toThrow("the disk is gone");
    expect(engine.memory().weightBytes).toBe(0);
    await engine.load({ first: 1, end: 2 }, model);
    expect(engine.isLoaded({ first: 1, end: 2 })).toBe(true);
  });

  it("a lack of memory fails what was to be loaded, and nothing else", async () => {
    const model = new GatedModel(kShapes["tiny"]!);
    const short = shortOfMemory();
    const engine = engineOn(short.gpu);
    await engine.load(kBegin, model);
    const { weightBytes } = engine.memory();
    short.isShort(true);
    const lack = { code: "out_of_memory", message: "Loading layer 2: the GPU has no memory left." };
    await expect(engine.loadAhead(2, model)).rejects.toMatchObject(lack);
    await expect(engine.load(kRest, model)).rejects.toMatchObject(lack);
    expect(engine.memory().weightBytes).toBe(weightBytes);
    short.isShort(false);
    await step(engine, kBegin, 0);
    await engine.load(kRest, model);
    expect(engine.isLoaded(kAll)).toBe(true);
  });
});
