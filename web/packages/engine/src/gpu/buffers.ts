// Every buffer that the engine makes, counted: memory() and the limit of the offer. Also the one
// place where a lack of GPU memory becomes an error.
import { EngineError } from "../base/error.ts";
import type { Gpu } from "./open.ts";

export type Purpose = "weights" | "kv" | "scratch";

// GPUBufferUsage and GPUMapMode as numbers: Node has no such globals.
export const Usage = {
  mapRead: 0x1,
  copyFrom: 0x4,
  copyTo: 0x8,
  uniform: 0x40,
  storage: 0x80,
} as const;
export const kMapRead = 1;

export class Buffers {
  readonly gpu: Gpu;
  readonly #bytes: Record<Purpose, number> = { weights: 0, kv: 0, scratch: 0 };
  readonly #purposes = new Map<GPUBuffer, Purpose>();
  readonly #limitBytes: number;
  readonly #alsoHeld: () => number;

  // A limit of 0 is none. `alsoHeld` tells the bytes that others hold within the same limit.
  constructor(gpu: Gpu, limitBytes: number, alsoHeld: () => number) {
    this.gpu = gpu;
    this.#limitBytes = limitBytes;
    this.#alsoHeld = alsoHeld;
  }

  bytes(purpose: Purpose): number {
    return this.#bytes[purpose];
  }

  fits(bytes: number): boolean {
    if (this.#limitBytes === 0) return true;
    const held = this.#bytes.weights + this.#bytes.kv + this.#bytes.scratch + this.#alsoHeld();
    return held + bytes <= this.#limitBytes;
  }

  // Throws EngineError (out_of_memory) beyond the offer or the device's limits.
  make(label: string, purpose: Purpose, byteCount: number, usage: number): GPUBuffer {
    const size = Math.max(16, Math.ceil(byteCount / 16) * 16);
    if (size > this.gpu.limits.bufferBytes) {
      throw new EngineError(
        "out_of_memory",
        `${label} takes ${size} bytes; this device's buffers have at most ` +
          `${this.gpu.limits.bufferBytes}.`,
      );
    }
    if (!this.fits(size)) {
      throw new EngineError(
        "out_of_memory",
        `${label} takes ${size} bytes beside weights of ${this.#bytes.weights}, keys and values ` +
          `of ${this.#bytes.kv} and scratch of ${this.#bytes.scratch}; the offer is ` +
          `${this.#limitBytes} bytes.`,
      );
    }
    const buffer = this.gpu.device.createBuffer({ label, size, usage });
    this.#purposes.set(buffer, purpose);
    this.#bytes[purpose] += size;
    return buffer;
  }

  free(buffer: GPUBuffer): void {
    const purpose = this.#purposes.get(buffer);
    if (!purpose) return;
    this.#purposes.delete(buffer);
    this.#bytes[purpose] -= buffer.size;
    buffer.destroy();
  }

  freeAll(): void {
    for (const buffer of [...this.#purposes.keys()]) this.free(buffer);
  }

  // Runs `make` and turns the device's own "out of memory" into an error.
  async guarded<T>(what: string, make: () => Promise<T>): Promise<T> {
    const { device } = this.gpu;
    device.pushErrorScope("out-of-memory");
    const outcome = await make().then(
      (value) => ({ value }),
      (cause: unknown) => ({ cause }),
    );
    const lack = await device.popErrorScope().catch(() => null);
    if (lack) throw new EngineError("out_of_memory", `${what}: the GPU has no memory left.`);
    if ("cause" in outcome) throw outcome.cause;
    return outcome.value;
  }
}

// writeBuffer takes multiples of 4 bytes.
export function write(
  device: GPUDevice,
  buffer: GPUBuffer,
  offset: number,
  bytes: Uint8Array<ArrayBuffer>,
): void {
  const whole = bytes.length - (bytes.length % 4);
  device.queue.writeBuffer(buffer, offset, bytes, 0, whole);
  if (whole === bytes.length) return;
  const tail = new Uint8Array(4);
  tail.set(bytes.subarray(whole));
  device.queue.writeBuffer(buffer, offset + whole, tail);
}
