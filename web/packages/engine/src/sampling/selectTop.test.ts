// Selection against sorting everything.
import { describe, expect, it } from "vitest";

import { countNonFinite, selectTop } from "./selectTop.ts";

function bySorting(logits: Float32Array, count: number): { tokenId: number; logit: number }[] {
  return [...logits]
    .map((logit, tokenId) => ({ tokenId, logit }))
    .sort((a, b) => b.logit - a.logit || a.tokenId - b.tokenId)
    .slice(0, count);
}

describe("selectTop", () => {
  it("equals sorting, with many equal logits", () => {
    let state = 7;
    for (const size of [1, 2, 5, 100, 3000]) {
      const logits = Float32Array.from({ length: size }, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return ((state >>> 8) % 37) / 4 - 3;
      });
      for (const count of [1, 2, 3, 64, 256]) {
        expect(selectTop(logits, count).candidates).toEqual(bySorting(logits, count));
      }
    }
  });

  it("prefers the lower id on a tie", () => {
    expect(selectTop(Float32Array.of(1, 5, 5, 5, 0), 2).candidates).toEqual([
      { tokenId: 1, logit: 5 },
      { tokenId: 2, logit: 5 },
    ]);
  });

  it("takes logsumexp over the whole vocabulary without overflow", () => {
    expect(selectTop(Float32Array.of(1000, 1000, -1000), 1).logsumexp).toBeCloseTo(
      1000 + Math.log(2),
      9,
    );
    expect(selectTop(new Float32Array(4096), 5).logsumexp).toBeCloseTo(Math.log(4096), 9);
  });
});

it("counts values that are not finite", () => {
  expect(countNonFinite(Float32Array.of(1, NaN, -Infinity, Infinity, 0))).toBe(3);
});
