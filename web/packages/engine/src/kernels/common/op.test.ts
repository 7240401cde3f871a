// What a declaration becomes in both languages. The oracle for the layout is WGSL's specification
// (14.4.1): u32 and f32 take 4 bytes, a struct's size is a multiple of its alignment, and elements
// of arrays in uniform buffers begin at multiples of 16.
import { describe, expect, it } from "vitest";

import { declareOp, kParamBytes, listOf } from "./op.ts";

const parts = listOf("Part", { first: "u32", out: "place", isLast: "bool", scale: "f32" }, 3);
const op = declareOp({ rowsAt: "u32", in: "place", epsilon: "f32", partCount: "u32", parts });
const values = { rowsAt: 5, in: { base: 64, stride: 32 }, epsilon: 0.5, partCount: 2 };

describe("declareOp", () => {
  it("writes the struct that the bytes have the order of", () => {
    expect(op.wgsl).toBe(
      [
        "struct Part {",
        "  @align(16) first: u32,",
        "  out_base: u32,",
        "  out_stride: u32,",
        "  is_last: u32,",
        "  scale: f32,",
        "}",
        "struct Op {",
        "  rows_at: u32,",
        "  in_base: u32,",
        "  in_stride: u32,",
        "  epsilon: f32,",
        "  part_count: u32,",
        "  @align(16) parts: array<Part, 3>,",
        "}",
        "",
      ].join("\n"),
    );
  });

  it("lays out elements at multiples of 16 bytes, whatever their size", () => {
    const bytes = op.bytes({
      ...values,
      parts: [
        { first: 1, out: { base: 2, stride: 3 }, isLast: false, scale: 4 },
        { first: 5, out: { base: 6, stride: 7 }, isLast: true, scale: 8 },
      ],
    });
    expect(bytes.length).toBe(kParamBytes);
    const words = new Uint32Array(bytes.buffer);
    const four = 0x40800000;
    const eight = 0x41000000;
    expect([...words.slice(0, 5)]).toEqual([5, 64, 32, 0x3f000000, 2]);
    expect([...words.slice(8, 13)]).toEqual([1, 2, 3, 0, four]); // byte 32: 20 rounded up
    expect([...words.slice(16, 21)]).toEqual([5, 6, 7, 1, eight]); // 32 bytes further
    expect(words.slice(21).every((word) => word === 0)).toBe(true);
  });

  it("refuses more elements than the array has", () => {
    const part = { first: 0, out: { base: 0, stride: 0 }, isLast: false, scale: 0 };
    expect(() => op.bytes({ ...values, parts: [part, part, part, part] })).toThrow(
      "4 elements Part; 3 is the most",
    );
  });

  it("refuses a struct that is larger than what a dispatch may bind", () => {
    const many = listOf("Part", { first: "place" }, 17); // 16 bytes each
    expect(() => declareOp({ many })).toThrow("an Op of 272 bytes; 256 is the most");
  });
});
