// Makes the engine on a device of its own. Imported lazily, so that a tab without work compiles no
// kernels.
import { openGpu } from "./gpu/open.ts";
import { WebGpuEngine } from "./webgpuEngine.ts";
import type { WebGpuOptions } from "./webgpuEngine.ts";

// Throws EngineError (unavailable) where there is no adapter or it gives no device.
export async function makeWebGpuEngine(
  gpu: GPU | undefined,
  options: WebGpuOptions,
): Promise<WebGpuEngine> {
  return new WebGpuEngine(await openGpu(gpu), options);
}
