// What the wasm heap of onnxruntime-web may take. The library makes its own WebAssembly.Memory and
// lets it grow to 4 GiB; here that memory is caught when it is made, so that its size is known
// exactly and a growth beyond the user's offer fails inside the library like any lack of memory.
//
// The heap that an empty runtime begins with (16 MiB) is the runtime's own cost, as is its code:
// the offer is about weights, keys and values, and scratch.

const kPageBytes = 65536;
// The library also makes an empty memory only to look at its type.
const kLeastPages = 16;

export class HeapBudget {
  #limitBytes = 0;
  #alsoHeld: () => number = () => 0;
  readonly #memories: { memory: WebAssembly.Memory; initialBytes: number }[] = [];
  #otherBytes = 0;
  #bytesBeforeGrowth = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  // 0: no limit. `alsoHeld`: bytes that others hold within the same limit.
  setLimit(limitBytes: number, alsoHeld: () => number): void {
    this.#limitBytes = limitBytes;
    this.#alsoHeld = alsoHeld;
  }

  get limitBytes(): number {
    return this.#limitBytes;
  }

  // What the heap grew by; it never shrinks.
  get heapBytes(): number {
    return this.#memories.reduce(
      (sum, { memory, initialBytes }) => sum + memory.buffer.byteLength - initialBytes,
      0,
    );
  }

  // What it had grown by before it grew for the last time: so much was taken, and a little more.
  // The library asks for up to a fifth more than it needs.
  get bytesBeforeGrowth(): number {
    return this.#bytesBeforeGrowth;
  }

  // What the empty runtime began with, most of it free.
  get initialBytes(): number {
    return this.#memories.reduce((sum, { initialBytes }) => sum + initialBytes, 0);
  }

  // Bytes outside of the heap that count too: keys and values, blobs on their way into the heap.
  get otherBytes(): number {
    return this.#otherBytes;
  }

  addOther(bytes: number): void {
    this.#otherBytes += bytes;
  }

  // Whether `bytes` more fit.
  fits(bytes: number): boolean {
    const held = this.heapBytes + this.#otherBytes + this.#alsoHeld();
    return this.#limitBytes === 0 || held + bytes <= this.#limitBytes;
  }

  // Runs `make`, which is to instantiate the library, and catches the memory that it makes.
  async catchMemory<T>(make: () => Promise<T>): Promise<T> {
    const Original = WebAssembly.Memory;
    const catching = (descriptor: WebAssembly.MemoryDescriptor): WebAssembly.Memory => {
      const memory = asLargeAsGiven(Original, descriptor);
      if (descriptor.initial >= kLeastPages) this.#watch(memory);
      return memory;
    };
    const Patched = function (descriptor: WebAssembly.MemoryDescriptor): WebAssembly.Memory {
      return catching(descriptor);
    } as unknown as typeof WebAssembly.Memory;
    Patched.prototype = Original.prototype;
    WebAssembly.Memory = Patched;
    try {
      return await make();
    } finally {
      WebAssembly.Memory = Original;
    }
  }

  #watch(memory: WebAssembly.Memory): void {
    this.#memories.push({ memory, initialBytes: memory.buffer.byteLength });
    const grow = memory.grow.bind(memory);
    memory.grow = (pages: number): number => {
      if (!this.fits(pages * kPageBytes)) {
        throw new RangeError(
          `${pages * kPageBytes} bytes more would pass the offer of ${this.#limitBytes} bytes.`,
        );
      }
      const before = this.heapBytes;
      const previousPages = grow(pages);
      this.#bytesBeforeGrowth = before;
      return previousPages;
    };
  }
}

// The library asks for a memory that may grow to 4 GiB. Phones refuse to set so much aside for one
// that threads share: then half as much is asked for, down to what it begins with.
function asLargeAsGiven(
  Memory: typeof WebAssembly.Memory,
  descriptor: WebAssembly.MemoryDescriptor,
): WebAssembly.Memory {
  const { initial, maximum } = descriptor;
  for (let most = maximum; ; most = Math.max(initial, Math.floor(most / 2))) {
    try {
      return new Memory(most === undefined ? descriptor : { ...descriptor, maximum: most });
    } catch (error) {
      if (!(error instanceof RangeError) || most === undefined || most <= initial) throw error;
    }
  }
}
