// The engine that runs ONNX parts. Importing this loads no library; createOrtEngine does.
import type { StageEngine } from "@weft/engine";

import { HeapBudget } from "./heapBudget.ts";
import { OrtEngine } from "./ortEngine.ts";
import { loadRuntime } from "./runtime.ts";
import type { Provider } from "./runtime.ts";

export { chooseProvider, findAdapter } from "./runtime.ts";
export type { Provider } from "./runtime.ts";

// Loads onnxruntime-web and makes an engine that takes at most `memoryBytes` (0: no limit) for
// weights, keys and values, and scratch. Throws EngineError when the library cannot be loaded.
export async function createOrtEngine(
  provider: Provider,
  memoryBytes: number,
): Promise<StageEngine> {
  const budget = new HeapBudget(memoryBytes);
  return new OrtEngine(await loadRuntime(provider, budget), budget);
}
