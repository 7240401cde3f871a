// Milliseconds that a compute pass takes: by timestamps where the device has them, else until the
// queue says that it is done. Browsers round timestamps to 0.1 ms, and a browser's clock has them
// notice the end some ms late: `sampleMs` is how long a pass should take to be measured well.
import { kMapRead, Usage } from "../gpu/buffers.ts";
import type { Gpu } from "../gpu/open.ts";

const kQueryResolve = 0x200; // GPUBufferUsage.QUERY_RESOLVE

const kByStampsMs = 4;
const kByClockMs = 12;
const kSurelyVisibleMs = 20; // of a pass by the clock: no rounding hides it

interface Queries {
  readonly set: GPUQuerySet;
  readonly resolved: GPUBuffer;
  readonly read: GPUBuffer;
}

export class GpuTimer {
  readonly #device: GPUDevice;
  #queries: Queries | null;
  #last: Promise<unknown> = Promise.resolve();

  constructor({ device, hasTimestamps }: Gpu) {
    this.#device = device;
    this.#queries = hasTimestamps
      ? {
          set: device.createQuerySet({ type: "timestamp", count: 2 }),
          resolved: device.createBuffer({ size: 16, usage: kQueryResolve | Usage.copyFrom }),
          read: device.createBuffer({ size: 16, usage: Usage.mapRead | Usage.copyTo }),
        }
      : null;
  }

  get sampleMs(): number {
    return this.#queries ? kByStampsMs : kByClockMs;
  }

  // One pass after the other, whoever calls. 0: less than timestamps show.
  time(record: (pass: GPUComputePassEncoder) => void): Promise<number> {
    const own = this.#last.then(() => this.#time(record));
    this.#last = own.catch(() => undefined);
    return own;
  }

  async #time(record: (pass: GPUComputePassEncoder) => void): Promise<number> {
    const encoder = this.#device.createCommandEncoder();
    const queries = this.#queries;
    const timestampWrites = queries && {
      querySet: queries.set,
      beginningOfPassWriteIndex: 0,
      endOfPassWriteIndex: 1,
    };
    const pass = encoder.beginComputePass(timestampWrites ? { timestampWrites } : {});
    record(pass);
    pass.end();
    if (queries) {
      encoder.resolveQuerySet(queries.set, 0, 2, queries.resolved, 0);
      encoder.copyBufferToBuffer(queries.resolved, 0, queries.read, 0, 16);
    }
    const begin = performance.now();
    this.#device.queue.submit([encoder.finish()]);
    const ns = queries ? await readNs(queries.read) : 0;
    if (!queries) await this.#device.queue.onSubmittedWorkDone();
    const ms = performance.now() - begin;
    if (!queries) return ms;
    if (ns > 0 || ms < kSurelyVisibleMs) return Math.max(0, ns) / 1e6;
    this.free(); // some drivers give the same stamp twice, or none
    this.#queries = null;
    return ms;
  }

  free(): void {
    this.#queries?.set.destroy();
    this.#queries?.resolved.destroy();
    this.#queries?.read.destroy();
  }
}

async function readNs(buffer: GPUBuffer): Promise<number> {
  await buffer.mapAsync(kMapRead);
  const [begin, end] = new BigUint64Array(buffer.getMappedRange());
  const ns = Number(end! - begin!);
  buffer.unmap();
  return ns;
}
