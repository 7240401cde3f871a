// The engine that runs ONNX parts. Importing this loads no library; createOrtEngine does.
import type { StageEngine } from "@weft/engine";
import type { TuneStore } from "@weft/engine/tune/store.ts";

import { HeapBudget } from "./heapBudget.ts";
import { OrtEngine } from "./ortEngine.ts";
import { loadRuntime, threadsHere } from "./runtime.ts";
import type { OrtRuntime, Provider } from "./runtime.ts";

export { chooseProvider, findAdapter, isFallback } from "./runtime.ts";
export type { Provider } from "./runtime.ts";

// Bytes that a provider takes for one byte of weights, before it has been measured: wasm computes
// in f32 and keeps what it packed beside what it was given until a layer is built.
export function guessWeightFactor(provider: Provider, quantisation: string): number {
  if (provider === "webgpu") return quantisation === "f16" ? 2 : 1.25;
  return quantisation === "f16" ? 2.75 : 2;
}

// Loads onnxruntime-web and makes an engine that takes at most `memoryBytes` (0: no limit) for
// weights, keys and values, and scratch, together with what `alsoHeld` says that others hold.
// `quantisation`: of the package, as its manifest names it. One engine of a provider at a time.
// `store`: for the number of threads that was found fastest on this device. Throws EngineError when
// the library cannot be loaded.
export async function createOrtEngine(
  provider: Provider,
  memoryBytes: number,
  alsoHeld: () => number,
  quantisation: string,
  store: TuneStore | null = null,
): Promise<StageEngine> {
  const loaded = (runtimes[provider] ??= load(provider, store));
  // What failed to load is tried again by the next call.
  loaded.catch(() => delete runtimes[provider]);
  const { runtime, budget } = await loaded;
  budget.setLimit(memoryBytes, alsoHeld);
  return new OrtEngine(runtime, budget, guessWeightFactor(provider, quantisation));
}

// The library keeps one wasm instance, and so one heap, for the life of the worker.
const runtimes: Partial<Record<Provider, ReturnType<typeof load>>> = {};

async function load(
  provider: Provider,
  store: TuneStore | null,
): Promise<{ runtime: OrtRuntime; budget: HeapBudget }> {
  const budget = new HeapBudget(0);
  return { runtime: await loadRuntime(provider, budget, await threadsHere(store)), budget };
}
