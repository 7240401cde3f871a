import { describe, expect, it } from "vitest";

import { EngineError } from "../base/error.ts";
import type { Buffers } from "../gpu/buffers.ts";
import type { Attention } from "../program/ir.ts";
import { Pools } from "./pools.ts";

const kPageBytes = 2 * 2 * 8 * 32 * 4; // keys and values of two heads of 16 columns, f16

// Buffers that count bytes, of which there are so many.
function poolsOf(limitBytes: number, bindingBytes = 1e9): Pools {
  let held = 0;
  const encoder = { copyBufferToBuffer: () => undefined, finish: () => null };
  const device = { createCommandEncoder: () => encoder, queue: { submit: () => undefined } };
  const fits = (bytes: number): boolean => held + bytes <= limitBytes;
  const buffers = {
    gpu: { device, limits: { bindingBytes } },
    fits,
    make: (_label: string, _purpose: string, size: number) => {
      if (!fits(size)) throw new EngineError("out_of_memory", `${size} bytes do not fit`);
      held += size;
      return { size };
    },
    free: ({ size }: { size: number }) => void (held -= size),
  };
  const pools = new Pools(buffers as unknown as Buffers, false);
  pools.add(0, { kvHeads: 2, headColumns: 16, valueColumns: 0 } as Attention);
  return pools;
}

describe("Pools", () => {
  it("doubles below what is planned, and grows by a quarter beyond it", () => {
    const pools = poolsOf(1e9);
    pools.plan(60);
    const capacities = [9, 17, 33, 61].map((pages) => {
      pools.grow(pages);
      return pools.capacity;
    });
    expect(capacities).toEqual([16, 32, 60, 75]);
  });

  it("takes what is wanted where no more fits or can be bound", () => {
    const tight = poolsOf(22 * kPageBytes);
    tight.plan(100);
    tight.grow(12);
    expect(tight.capacity).toBe(12);
    const narrow = poolsOf(1e9, 11 * kPageBytes);
    narrow.plan(100);
    narrow.grow(9);
    expect(narrow.capacity).toBe(10);
    expect(() => narrow.grow(12)).toThrow("this device binds at most");
  });
});
