// All 65536 halves and the rounding of random floats, against a slow conversion by arithmetic.
import { describe, expect, it } from "vitest";

import {
  bf16ToF32,
  f16ToF32,
  f16ToF32ByTable,
  f32ToBf16,
  f32ToF16,
  f32ToF16ByBits,
} from "./half.ts";

function allHalves(): Uint16Array {
  return Uint16Array.from({ length: 65536 }, (_, i) => i);
}

// IEEE 754's definition, in doubles.
function valueOfF16(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function randomFloats(count: number): Float32Array {
  const floats = new Float32Array(count);
  const bits = new Uint32Array(floats.buffer);
  let state = 12345;
  for (let i = 0; i < count; ++i) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // Exponents around the range of f16: 2^-30 to 2^20.
    bits[i] = (state & 0x807fffff) | ((97 + (i % 51)) << 23);
  }
  return floats;
}

describe("f16", () => {
  it.each([["native or table", f16ToF32], ["table", f16ToF32ByTable]] as const)(
    "every value becomes the f32 of the same value: %s",
    (_, convert) => {
      const out = new Float32Array(65536);
      convert(allHalves(), out);
      for (let half = 0; half < 65536; ++half) {
        if (!Object.is(out[half], valueOfF16(half))) {
          expect([half, out[half]]).toEqual([half, valueOfF16(half)]);
        }
      }
    },
  );

  it.each([["native or bits", f32ToF16], ["bits", f32ToF16ByBits]] as const)(
    "every value survives the way to f32 and back: %s",
    (_, convert) => {
      const halves = allHalves().filter((half) => !Number.isNaN(valueOfF16(half)));
      const out = new Uint16Array(halves.length);
      convert(Float32Array.from(halves, valueOfF16), out);
      expect(out).toEqual(halves);
    },
  );

  it.each([["native or bits", f32ToF16], ["bits", f32ToF16ByBits]] as const)(
    "rounds to the nearest value, ties to even: %s",
    (_, convert) => {
      const floats = randomFloats(200_000);
      const out = new Uint16Array(floats.length);
      convert(floats, out);
      for (let i = 0; i < floats.length; ++i) {
        const value = Math.abs(floats[i]!);
        const half = out[i]! & 0x7fff;
        // 65520 is half way to the value that would follow 65504.
        if (value >= 65520) {
          if (half !== 0x7c00) expect([value, half]).toEqual([value, 0x7c00]);
          continue;
        }
        const near = half === 0x7c00 ? Infinity : Math.abs(valueOfF16(half) - value);
        const below = half > 0 ? Math.abs(valueOfF16(half - 1) - value) : Infinity;
        const above = half < 0x7bff ? Math.abs(valueOfF16(half + 1) - value) : Infinity;
        const best = Math.min(below, above);
        if (!(near < best || (near === best && half % 2 === 0))) {
          expect([value, half]).toEqual([value, "the nearest, even on ties"]);
        }
      }
    },
  );

  it("keeps infinities and NaNs", () => {
    const out = new Uint16Array(3);
    f32ToF16ByBits(Float32Array.of(Infinity, -Infinity, NaN), out);
    expect(out[0]).toBe(0x7c00);
    expect(out[1]).toBe(0xfc00);
    expect(valueOfF16(out[2]!)).toBeNaN();
  });
});

describe("bf16", () => {
  it("widens exactly and rounds to nearest even", () => {
    const out = new Float32Array(4);
    bf16ToF32(Uint16Array.of(0x3f80, 0xc000, 0x7f80, 0x0001), out);
    expect([...out]).toEqual([1, -2, Infinity, 2 ** -133]);
    const back = new Uint16Array(5);
    // 1 + 2^-8 is a tie (to even: down), 1 + 3 * 2^-8 a tie (to even: up), then just above a tie.
    f32ToBf16(Float32Array.of(1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, NaN), back);
    expect([...back.subarray(0, 4)]).toEqual([0x3f80, 0x3f80, 0x3f82, 0x3f81]);
    expect(back[4]! & 0x7fff).toBeGreaterThan(0x7f80);
  });
});
