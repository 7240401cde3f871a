// Draws against the golden tokens, and candidates against all logits.
import { describe, expect, it } from "vitest";

import { goldenDraws, kGreedy } from "../test/goldenDraws.ts";
import { counterDouble } from "../sampling/random.ts";
import { scaleOf, selectRow } from "./selectRow.ts";

const kNeutral = { ...kGreedy, temperature: 1 };

describe("draws", () => {
  it.each(goldenDraws.map((c) => [c.name, c] as const))("the golden tokens: %s", (_, c) => {
    const { sampling } = c;
    const logits = c.logits();
    const tokens = c.positions.map((position) => {
      const uniform = counterDouble(sampling.seed, position, 0);
      return selectRow(logits, { kind: "draw", count: 0, sampling, uniform }).drawn!.tokenId;
    });
    expect(tokens).toEqual(c.tokens);
  });

  it("report raw logits, whatever penalties did", () => {
    const logits = Float32Array.of(-1, 2, -0.5, 2);
    const logitBias = new Map([[2, 50]]);
    const sampling = { ...kNeutral, temperature: 0, logitBias };
    const selection = selectRow(logits, { kind: "draw", count: 2, sampling, uniform: 0 });
    expect(selection.drawn).toEqual({ tokenId: 2, logit: -0.5 });
    expect(selection.candidates).toEqual([
      { tokenId: 1, logit: 2 },
      { tokenId: 3, logit: 2 },
    ]);
    const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0);
    expect(selection.logsumexp).toBeCloseTo(Math.log(sum), 12);
    expect(logits[2]).toBe(-0.5);
  });

  it("order equal logits, signed zeros and negative ones", () => {
    const logits = Float32Array.of(-3, -0, 0, 5, -1e-40, 1e-40, 5, -3);
    const order = [3, 6, 5, 1, 2, 4, 0, 7];
    const sampling = { ...kNeutral, temperature: 1e6 }; // nearly uniform
    const drawn = order.map((_, place) => {
      const uniform = (place + 0.5) / order.length;
      return selectRow(logits, { kind: "draw", count: 0, sampling, uniform }).drawn!.tokenId;
    });
    expect(drawn).toEqual(order);
  });
});

describe("candidates", () => {
  it("come from the penalised logits, with both sums", () => {
    const c = goldenDraws.find(({ name }) => name === "both")!;
    const logits = c.logits();
    const sampling = { ...c.sampling, temperature: 1.5 };
    const selection = selectRow(logits, { kind: "candidates", count: 3, sampling });
    const changed = logits.map((logit, id) => {
      const biased = logit + (sampling.logitBias.get(id) ?? 0);
      if (!sampling.seen.has(id)) return biased;
      return biased > 0 ? biased / 2 : biased * 2;
    });
    const order = [...changed.keys()].sort((a, b) => changed[b]! - changed[a]! || a - b);
    expect(selection.candidates.map(({ tokenId }) => tokenId)).toEqual(order.slice(0, 3));
    const best = changed[order[0]!]!;
    expect(selection.candidates[0]!.logit).toBe(best);
    const sum = (values: Float32Array, from: number, scale: number): number =>
      values.reduce((total, value) => total + Math.exp((value - from) * scale), 0);
    expect(selection.scaledSum! / sum(changed, best, 1 / 1.5)).toBeCloseTo(1, 9);
    expect(selection.logsumexp).toBeCloseTo(Math.log(sum(logits, 0, 1)), 9);
  });

  it("take any scale for greedy requests, and none that overflows", () => {
    expect(scaleOf({ ...kNeutral, temperature: 0 })).toBe(1);
    expect(scaleOf({ ...kNeutral, temperature: 1e-44 })).toBe(1e30);
    expect(scaleOf(undefined)).toBe(1);
    expect(scaleOf({ ...kNeutral, temperature: 2 })).toBe(0.5);
  });
});
