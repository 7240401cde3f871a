import { describe, expect, it } from "vitest";
import * as format from "./format.ts";

describe("formatBytes", () => {
  it.each([
    [0, "0 bytes"],
    [999, "999 bytes"],
    [1000, "1 KB"],
    [1_200_000_000, "1.2 GB"],
    [999_600, "1 MB"],
    [13_340_000, "13 MB"],
    [12_068_992, "12 MB"],
    [1_536_000, "1.5 MB"],
    [5e15, "5000 TB"],
    [Number.NaN, "0 bytes"],
    [-5, "0 bytes"],
  ])("%d is %s", (count, text) => {
    expect(format.formatBytes(count)).toBe(text);
  });
});

it("shows memory in binary units", () => {
  expect(format.formatMemory(2 * 2 ** 30)).toBe("2 GiB");
  expect(format.formatMemory(512 * 2 ** 20)).toBe("512 MiB");
  expect(format.formatMemory(1000 * 2 ** 20)).toBe("1000 MiB");
  expect(format.formatMemory(2 ** 30 + 2 ** 28)).toBe("1.25 GiB");
});

it("shows a part of memory with one unit where one is enough", () => {
  expect(format.formatMemoryOf(6.4 * 2 ** 20, 512 * 2 ** 20)).toBe("6.4 of 512 MiB");
  expect(format.formatMemoryOf(300 * 2 ** 10, 2 * 2 ** 30)).toBe("300 KiB of 2 GiB");
  expect(format.formatMemoryOf(0, 2 * 2 ** 30)).toBe("0 of 2 GiB");
});

describe("times", () => {
  it.each([
    [0, "0 µs"],
    [850, "850 µs"],
    [4_240, "4.24 ms"],
    [999_499, "999 ms"],
    [999_501, "1 s"],
    [1_500_000, "1.5 s"],
    [150_000_000, "2 min 30 s"],
    [7_260_000_000, "2 h 1 min"],
  ])("%d us is %s", (microseconds, text) => {
    expect(format.formatMicroseconds(microseconds)).toBe(text);
  });
  it("takes milliseconds", () => expect(format.formatMilliseconds(12.34)).toBe("12.3 ms"));
});

it("shows rates, and a dash for none", () => {
  expect(format.formatRate(21.44, "tokens")).toBe("21.4 tokens/s");
  expect(format.formatRate(0, "tokens")).toBe("– tokens/s");
  expect(format.formatByteRate(2_000_000)).toBe("2 MB/s");
});

it("counts", () => {
  expect(format.formatCount(1, "device")).toBe("1 device");
  expect(format.formatCount(0, "device")).toBe("0 devices");
  expect(format.formatCount(2, "entry", "entries")).toBe("2 entries");
  expect(format.formatInteger(1234567)).toBe("1\u202f234\u202f567");
});

it("never shows more than all", () => {
  expect(format.formatPercent(5, 0)).toBe("0%");
  expect(format.formatPercent(999, 1000)).toBe("99%");
  expect(format.formatPercent(12, 10)).toBe("100%");
});

it("compares measured with predicted", () => {
  expect(format.formatDifference(107, 100)).toBe("+7%");
  expect(format.formatDifference(88, 100)).toBe("−12%");
  expect(format.formatDifference(100.2, 100)).toBe("as predicted");
  expect(format.formatDifference(0, 100)).toBe("");
});
