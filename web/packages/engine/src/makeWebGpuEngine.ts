// Makes the engine on a device of its own. Imported lazily, so that a tab without work compiles no
// kernels.
import { openGpu } from "./gpu/open.ts";
import { probeMemory } from "./gpu/probe.ts";
import { WebGpuEngine } from "./webgpuEngine.ts";
import type { WebGpuOptions } from "./webgpuEngine.ts";

// Throws EngineError (unavailable) where there is no adapter or it gives no device.
export async function makeWebGpuEngine(
  gpu: GPU | undefined,
  options: WebGpuOptions,
): Promise<WebGpuEngine> {
  return new WebGpuEngine(await openGpu(gpu), options);
}

// Bytes of `wantedBytes` that the GPU gives, on a device of its own that is closed again.
export async function probeWebGpu(gpu: GPU | undefined, wantedBytes: number): Promise<number> {
  const { device } = await openGpu(gpu);
  const bytes = await probeMemory(device, wantedBytes);
  device.destroy();
  return bytes;
}
