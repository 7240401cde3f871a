// How much memory a GPU gives before a tab promises it: WebGPU rarely refuses a buffer that no
// memory stands behind, so pieces are taken, and written to, until the device says that it has no
// more. Pieces double as long as they are given, and are halved where one is refused. 3,200 MiB:
//
//   64 128 256 512 1024 1024 (1024) (512) (256) 128 (128) 64 (64)        in brackets: refused
import { Usage } from "./buffers.ts";

const kMiB = 1 << 20;
const kLeastStepBytes = 64 * kMiB;
const kMostStepBytes = 1024 * kMiB;
// Smaller steps take as long as the call itself: their times say nothing of the memory.
const kTimedBytes = 256 * kMiB;
// What takes less may have been anything.
const kLeastSlowMs = 25;

export interface ProbeOptions {
  readonly leastStepBytes?: number;
  readonly mostStepBytes?: number;
  // Told of all that was given so far.
  readonly onBytes?: (bytes: number) => void;
  // A step that takes so many times as long, for each byte, as the fastest one, twice, does not
  // count, and is the last: the GPU's own memory has ended. Without it no step is too slow.
  readonly slowFactor?: number;
  readonly now?: () => number; // ms
}

export interface Probed {
  readonly bytes: number;
  readonly isLost: boolean; // the device, meanwhile: it gave these bytes until then
}

// Bytes of `wantedBytes` that the device gave, all freed again.
export async function probeMemory(
  device: GPUDevice,
  wantedBytes: number,
  options: ProbeOptions = {},
): Promise<Probed> {
  const { leastStepBytes = kLeastStepBytes, mostStepBytes = kMostStepBytes } = options;
  const most = Math.min(mostStepBytes, device.limits.maxBufferSize);
  const pace = new Pace(options);
  const held: GPUBuffer[] = [];
  let bytes = 0;
  let step = Math.min(leastStepBytes, most);
  let mayGrow = true;
  let isLost = false;
  try {
    while (bytes < wantedBytes) {
      const size = Math.ceil(Math.min(step, wantedBytes - bytes) / 4) * 4;
      const buffer = await pace.timed(size, () => take(device, size, held));
      if (buffer) {
        if (pace.isSlow) await pace.timed(size, () => clear(device, buffer));
        if (pace.isSlow) break;
        bytes += size;
        options.onBytes?.(bytes);
        if (mayGrow) step = Math.min(2 * step, most);
      } else if (step > leastStepBytes) {
        mayGrow = false;
        step = Math.max(leastStepBytes, step / 2);
      } else {
        break;
      }
    }
  } catch {
    isLost = true; // or it throws where it should report
  } finally {
    for (const buffer of held) buffer.destroy();
  }
  return { bytes: Math.min(bytes, wantedBytes), isLost };
}

// How long it takes to write to memory, for each byte.
class Pace {
  readonly #slowFactor: number;
  readonly #now: () => number;
  #fastest = Infinity; // ms a byte
  isSlow = false; // the last time

  constructor({ slowFactor = Infinity, now = () => performance.now() }: ProbeOptions) {
    this.#slowFactor = slowFactor;
    this.#now = now;
  }

  async timed<T>(byteCount: number, work: () => Promise<T>): Promise<T> {
    const begin = this.#now();
    const made = await work();
    const ms = this.#now() - begin;
    this.isSlow = false;
    if (byteCount < kTimedBytes) return made;
    this.#fastest = Math.min(this.#fastest, ms / byteCount);
    this.isSlow = ms > kLeastSlowMs && ms / byteCount > this.#slowFactor * this.#fastest;
    return made;
  }
}

// Gives null where the device refuses.
async function take(
  device: GPUDevice,
  size: number,
  held: GPUBuffer[],
): Promise<GPUBuffer | null> {
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("validation"); // what uses a buffer that is none
  const buffer = device.createBuffer({ size, usage: Usage.storage | Usage.copyTo });
  held.push(buffer);
  const cleared = clear(device, buffer);
  const [invalid, lack] =
    await Promise.all([device.popErrorScope(), device.popErrorScope(), cleared]);
  return invalid || lack ? null : buffer;
}

async function clear(device: GPUDevice, buffer: GPUBuffer): Promise<void> {
  const encoder = device.createCommandEncoder();
  encoder.clearBuffer(buffer);
  device.queue.submit([encoder.finish()]);
  await device.queue.onSubmittedWorkDone();
}
