import { describe, expect, it } from "vitest";

import { checkIntegerRow, integerRowBytes, readIntegerRow } from "./integerRow.ts";

function bytesOf(exponents: readonly number[], values: readonly number[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(exponents.length + 2 * values.length));
  for (const [i, e] of exponents.entries()) view.setUint8(i, e);
  for (const [i, x] of values.entries()) view.setInt16(exponents.length + 2 * i, x, true);
  return new Uint8Array(view.buffer);
}

function read(exponents: readonly number[], values: readonly number[]): Float32Array {
  const row = new Float32Array(values.length);
  readIntegerRow(bytesOf(exponents, values), row);
  return row;
}

describe("rows of whole numbers", () => {
  it("have an exponent for every 256 columns, and two bytes a value", () => {
    expect(integerRowBytes(1)).toBe(3);
    expect(integerRowBytes(256)).toBe(513);
    expect(integerRowBytes(300)).toBe(602);
  });

  // What src/tensor/integer_row.cc reads, bit by bit.
  it("are read as f32", () => {
    expect([...read([127], [16320, -8160, 0])]).toEqual([
      Math.fround(16320 * 2 ** -14 * Math.fround(1.003952326971)),
      Math.fround(-8160 * 2 ** -14 * Math.fround(1.003952326971)),
      0,
    ]);
    expect(read([127], [16320])[0]).toBeCloseTo(1.0000306, 6);
  });

  it("never reach the next exponent", () => {
    for (const e of [40, 127, 254]) {
      const below = 2 ** (e - 127) * (2 - 2 ** -23);
      const [most, least] = read([e], [32639, -32639]);
      expect(most).toBeLessThanOrEqual(below);
      expect(least).toBe(-most!);
      expect(most).toBeGreaterThan(0.9999 * below);
    }
  });

  it("take each column's own exponent", () => {
    const row = read([127, 130], Array.from({ length: 257 }, () => 16320));
    expect(row[256]).toBe(8 * row[255]!);
  });

  it("are refused where nobody could have written them", () => {
    expect(() => checkIntegerRow(bytesOf([39], [1]), 1)).toThrow(/exponent 39, expected 40 to 254/);
    expect(() => checkIntegerRow(bytesOf([127], [-32768]), 1)).toThrow(/32768, expected at most/);
    expect(() => checkIntegerRow(bytesOf([254], [32639]), 1)).not.toThrow();
  });
});
