// Makes the engine on a device of its own, with the kernels that the device is fastest with.
// Imported lazily, so that a tab without work compiles no kernels.
import { openGpu } from "./gpu/open.ts";
import type { Gpu } from "./gpu/open.ts";
import { productSources } from "./kernels/product/variants.ts";
import { ProductRig } from "./tune/rig.ts";
import { hashOf, MemoryTuneStore } from "./tune/store.ts";
import type { TuneStore } from "./tune/store.ts";
import { tune, tunedText } from "./tune/tune.ts";
import type { Tuned } from "./tune/tune.ts";
import { WebGpuEngine, wishOf } from "./webgpuEngine.ts";
import type { WebGpuOptions } from "./webgpuEngine.ts";

// Bumped where candidates or their measurement change.
const kTuningVersion = 1;

// Throws EngineError (unavailable) where there is no adapter or it gives no device. `store`: where
// the choice of kernels is kept.
export async function makeWebGpuEngine(
  gpu: GPU | undefined,
  options: WebGpuOptions,
  store: TuneStore = new MemoryTuneStore(),
): Promise<WebGpuEngine> {
  const opened = await openGpu(gpu);
  const tuned = await tuneFor(opened, options, store);
  const detail = tunedText(tuned);
  return new WebGpuEngine(opened, { ...options, tuning: tuned.arithmetic, detail });
}

// How this device is to compute products of a model with these options.
export async function tuneFor(
  gpu: Gpu,
  options: WebGpuOptions,
  store: TuneStore,
): Promise<Tuned> {
  const wish = wishOf(options);
  const isExact = wish.products === "f32";
  const { memoryLimitBytes: limit } = options;
  const most = limit === 0 ? Number.MAX_SAFE_INTEGER : limit / 2;
  const version = `${kTuningVersion}|${hashOf(productSources())}|${gpu.hasF16}`;
  return await tune(gpu, wish, options.tuning ?? "auto", {
    store,
    key: hashOf(gpu.identity, version, wish.products ?? "any"),
    makeRig: () => new ProductRig(gpu, isExact, most),
    now: () => performance.now(),
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  });
}
