// Fork frames shared with the C++ codec (tests/golden/forks.json, written by a third
// implementation in Python).
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import { decodeFork, encodeFork, isForkFrame } from "./index.ts";

const path = new URL("../../../../tests/golden/forks.json", import.meta.url);
const golden = JSON.parse(readFileSync(fileURLToPath(path), "utf8")) as {
  frames: Record<string, number & string>[];
  refused: { name: string; hex: string; problem: string }[];
};

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));

describe("fork frames", () => {
  it("are the golden bytes", () => {
    expect(golden.frames.length).toBeGreaterThan(1);
    for (const { hex, position_count: positionCount, ...rest } of golden.frames) {
      const { binding, stage, from, session, generation } = rest;
      const fork = { binding, stage, from, session, generation, positionCount } as never;
      expect(Buffer.from(encodeFork(fork)).toString("hex")).toBe(hex);
      expect(isForkFrame(bytesOf(hex!))).toBe(true);
      expect(decodeFork(bytesOf(hex!))).toEqual(fork);
    }
  });

  it.each(golden.refused)("refuse $name", ({ hex, problem }) => {
    expect(() => decodeFork(bytesOf(hex))).toThrow(problem);
  });
});
