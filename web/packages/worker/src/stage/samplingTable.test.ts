// What the last stage is told of sampling, and what it refuses: as
// src/worker/sampling_table_test.cc.
import { describe, expect, it } from "vitest";

import { counterDouble } from "@weft/engine";
import { decodeServerMessage } from "@weft/wire";
import type { Sampling } from "@weft/wire";
import { encodeServerMessage } from "@weft/wire/test/orchestrator.ts";

import { SamplingTable } from "./samplingTable.ts";

const kVocabulary = 100;
const kParams = {
  temperature: 1.5, topK: 7, topP: 0.5, minP: 0.25, repetitionPenalty: 1.25,
  presencePenalty: 0.5, frequencyPenalty: -0.5, biasTokens: [3, 3], biases: [-100, 1], seed: 99n,
};

// The message as it comes over the wire.
function message(value: { generation: number; tokens?: number[]; params?: typeof kParams }):
Sampling {
  const bytes = encodeServerMessage({ case: "sampling", value: { session: 1, ...value } });
  const { kind } = decodeServerMessage(bytes);
  if (kind.case !== "sampling") throw new Error("not a sampling message");
  return kind.value;
}

describe("SamplingTable", () => {
  it("gives what was told for exactly that position", () => {
    const table = new SamplingTable();
    const begin = message({ generation: 4, params: kParams, tokens: [5, 6, 5] });
    expect(table.onMessage(begin, kVocabulary)).toBe("");
    const { sampling, uniform } = table.find(1, 4, 3);
    expect(uniform).toBe(counterDouble(99n, 3, 0));
    expect(sampling).toMatchObject({
      temperature: 1.5, topK: 7, topP: 0.5, minP: 0.25, repetitionPenalty: 1.25,
      presencePenalty: 0.5, frequencyPenalty: -0.5, seed: 99n,
    });
    expect([...sampling.logitBias]).toEqual([[3, -99]]);
    expect([...sampling.seen]).toEqual([[5, 2], [6, 1]]);
    expect(() => table.find(1, 4, 4)).toThrow("3 tokens are known here, expected the 4 before");
    expect(table.onMessage(message({ generation: 4, tokens: [6] }), kVocabulary)).toBe("");
    expect([...table.find(1, 4, 4).sampling.seen]).toEqual([[5, 2], [6, 2]]);
  });

  it("begins anew with a generation, and forgets sessions that are over", () => {
    const table = new SamplingTable();
    table.onMessage(message({ generation: 4, params: kParams, tokens: [5] }), kVocabulary);
    expect(() => table.find(1, 5, 1)).toThrow("generation 5 was not told here");
    table.onMessage(message({ generation: 5, params: kParams, tokens: [9] }), kVocabulary);
    expect([...table.find(1, 5, 1).sampling.seen]).toEqual([[9, 1]]);
    table.release(1);
    expect(() => table.find(1, 5, 1)).toThrow("was not told here");
  });

  it("needs no tokens where nothing is penalised", () => {
    const table = new SamplingTable();
    const none = { repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0 };
    table.onMessage(message({ generation: 0, params: { ...kParams, ...none } }), kVocabulary);
    expect(table.find(1, 0, 77).sampling.temperature).toBe(1.5);
  });

  it.each<[string, Parameters<typeof message>[0], string]>([
    ["a continuation of nothing", { generation: 0, tokens: [1] }, "which was not begun here"],
    ["a token outside", { generation: 0, params: kParams, tokens: [100] },
      "names token 100, expected less than 100"],
    ["a temperature below 0", { generation: 0, params: { ...kParams, temperature: -1 } },
      "session 1 has a temperature of -1"],
    ["no number", { generation: 0, params: { ...kParams, minP: NaN } }, "min_p of NaN"],
    ["no repetition penalty", { generation: 0, params: { ...kParams, repetitionPenalty: 0 } },
      "repetition penalty of 0"],
    ["an endless bias", { generation: 0, params: { ...kParams, biases: [Infinity, 1] } }, "bias"],
    ["a bias too few", { generation: 0, params: { ...kParams, biases: [1] } },
      "1 biases for 2 tokens"],
  ])("refuses %s", (_, value, problem) => {
    expect(new SamplingTable().onMessage(message(value), kVocabulary)).toContain(problem);
  });
});
