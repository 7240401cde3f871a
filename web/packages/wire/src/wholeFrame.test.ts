// Whole-model frames shared with the C++ codec (tests/golden/whole_frames.json, written by a third
// implementation in Python).
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import { decodeWholeFrame, encodeWholeFrame, isWholeFrame } from "./index.ts";
import type { WholeFrame } from "./index.ts";

interface GoldenFrame {
  type: string;
  hex: string;
  [field: string]: unknown;
}

const path = new URL("../../../../tests/golden/whole_frames.json", import.meta.url);
const golden = JSON.parse(readFileSync(fileURLToPath(path), "utf8")) as {
  frames: GoldenFrame[];
  refused: Record<string, string>;
};

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));

function described(f: GoldenFrame): WholeFrame {
  const at = { sequence: f["sequence"] as number, binding: f["binding"] as number };
  switch (f.type) {
    case "run_here":
      return { kind: "runHere", isWanted: f["value"] === 1, apiKey: (f["text"] ?? "") as string };
    case "whole_model": {
      const message = (f["text"] ?? "") as string;
      return { kind: "wholeModel", state: f["value"] as 0 | 1 | 2 | 3, message };
    }
    case "stop":
      return { kind: "stop", ...at };
    case "tokens": {
      const tokens = f["tokens"] as number[];
      const computeUs = f["compute_us"] as number;
      return { kind: "tokens", ...at, isLast: f["last"] === 1, computeUs, tokens };
    }
    default:
      return {
        kind: "generate",
        ...at,
        session: f["session"] as number,
        generation: f["generation"] as number,
        position: f["position"] as number,
        token: f["token"] as number,
        count: f["count"] as number,
        interval: f["interval"] as number,
        temperature: f["temperature"] as number,
        topK: f["top_k"] as number,
        topP: f["top_p"] as number,
        minP: f["min_p"] as number,
        repetitionPenalty: f["repetition"] as number,
        presencePenalty: f["presence"] as number,
        frequencyPenalty: f["frequency"] as number,
        seed: BigInt(f["seed"] as string),
        stopTokens: f["stops"] as number[],
        biases: f["biases"] as [number, number][],
        seen: f["seen"] as [number, number][],
      };
  }
}

describe("whole-model frames", () => {
  it("are the golden bytes", () => {
    expect(golden.frames.length).toBeGreaterThan(5);
    for (const frame of golden.frames) {
      const bytes = bytesOf(frame.hex);
      expect(Buffer.from(encodeWholeFrame(described(frame))).toString("hex")).toBe(frame.hex);
      expect(isWholeFrame(bytes)).toBe(true);
      expect(decodeWholeFrame(bytes)).toEqual(described(frame));
    }
  });

  it.each(Object.entries(golden.refused))("refuse %s", (_, hex) => {
    expect(() => decodeWholeFrame(bytesOf(hex))).toThrow("expected");
  });
});
