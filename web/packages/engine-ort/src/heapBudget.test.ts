// The memory that the library asks for, as far as a browser gives it.
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { HeapBudget } from "./heapBudget.ts";

const kPageBytes = 65536;
const Original = WebAssembly.Memory;

// A browser that sets no more than `mostPages` aside for a memory that threads share.
function refuseAbove(mostPages: number): void {
  const Limited = function (descriptor: WebAssembly.MemoryDescriptor): WebAssembly.Memory {
    if ((descriptor.maximum ?? 0) > mostPages) throw new RangeError("Out of memory");
    return new Original(descriptor);
  } as unknown as typeof WebAssembly.Memory;
  Limited.prototype = Original.prototype;
  WebAssembly.Memory = Limited;
}

let budget: HeapBudget;
beforeEach(() => {
  budget = new HeapBudget(0);
});
afterEach(() => {
  WebAssembly.Memory = Original;
});

const make = (maximum: number): Promise<WebAssembly.Memory> =>
  budget.catchMemory(() =>
    Promise.resolve(new WebAssembly.Memory({ initial: 256, maximum, shared: true })),
  );

describe("a memory of 4 GiB that the browser refuses", () => {
  it("is asked for again with half as much, until it is given", async () => {
    refuseAbove(2000); // 125 MiB
    const memory = await make(65_536);
    expect(memory.buffer.byteLength).toBe(256 * kPageBytes);
    memory.grow(1024 - 256);
    expect(() => memory.grow(1025)).toThrow(RangeError);
    expect(budget.heapBytes).toBe((1024 - 256) * kPageBytes);
  });

  it("is a lack of memory where not even its beginning is given", async () => {
    refuseAbove(100);
    await expect(make(65_536)).rejects.toThrow("Out of memory");
  });

  it("is taken as it is where it is given", async () => {
    refuseAbove(65_536);
    const memory = await make(65_536);
    expect(memory.grow(0)).toBe(256);
  });
});
