// How much memory a GPU gives before a tab promises it: WebGPU rarely refuses a buffer that no
// memory stands behind, so small pieces are taken, and written to, until the device says that it
// has no more.
import { Usage } from "./buffers.ts";

const kStepBytes = 64 << 20;

// Bytes of `wantedBytes` that the device gave, all freed again. A device that is lost meanwhile
// gave what it gave until then.
export async function probeMemory(
  device: GPUDevice,
  wantedBytes: number,
  stepBytes = kStepBytes,
): Promise<number> {
  const held: GPUBuffer[] = [];
  let bytes = 0;
  try {
    while (bytes < wantedBytes) {
      const size = Math.ceil(Math.min(stepBytes, wantedBytes - bytes) / 4) * 4;
      if (!(await take(device, size, held))) break;
      bytes += size;
    }
  } catch {
    // Lost, or it throws where it should report.
  } finally {
    for (const buffer of held) buffer.destroy();
  }
  return Math.min(bytes, wantedBytes);
}

async function take(device: GPUDevice, size: number, held: GPUBuffer[]): Promise<boolean> {
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("validation"); // what uses a buffer that is none
  const buffer = device.createBuffer({ size, usage: Usage.storage | Usage.copyTo });
  held.push(buffer);
  const encoder = device.createCommandEncoder();
  encoder.clearBuffer(buffer);
  device.queue.submit([encoder.finish()]);
  const invalid = await device.popErrorScope();
  const lack = await device.popErrorScope();
  if (invalid || lack) return false;
  await device.queue.onSubmittedWorkDone();
  return true;
}
