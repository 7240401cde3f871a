// The engine on onnxruntime-web's wasm build against decoders in the forms that people have, cut by
// `weft onnx-split`: logits and greedy ids of onnxruntime (native) or transformers, session rules,
// batches, chunking, KV in and out, memory. Needs the reference data and a built weft.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import * as ort from "onnxruntime-web";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { LayerRange, Output, Run, StepOutput } from "@weft/engine";

import { HeapBudget } from "./heapBudget.ts";
import { OrtEngine } from "./ortEngine.ts";
import { startRuntime } from "./runtime.ts";
import type { OrtRuntime } from "./runtime.ts";
import { SplitModel, readSafetensor } from "./test/splitModel.ts";

// Token 200 is lifted above all others.
const kLiftOne = {
  temperature: 1, topK: 1, topP: 1, minP: 0, repetitionPenalty: 1, presencePenalty: 0,
  frequencyPenalty: 0, logitBias: new Map([[200, 100]]), seen: new Map(), seed: 1n,
};

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const data = process.env["WEFT_DATA"] ?? join(root, "build/test-data");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const isThere = existsSync(join(data, "onnx")) && existsSync(weft);
const folder = isThere ? mkdtempSync(join(tmpdir(), "weft-ort-")) : "";
afterAll(() => {
  if (folder) rmSync(folder, { recursive: true });
});

// The wasm heap is the process's: one runtime for all tests.
const budget = new HeapBudget(0);
let runtime: OrtRuntime;

interface Reference {
  model: SplitModel;
  promptIds: number[];
  logits: number[];
  greedyIds: number[];
  vocabulary: number;
}

function open(name: string): Reference {
  const out = join(folder, name);
  if (!existsSync(out)) execFileSync(weft, ["onnx-split", join(data, "onnx", name), out]);
  const reference = join(data, "onnx", name, "reference.safetensors");
  const logits = readSafetensor(reference, "logits");
  return {
    model: new SplitModel(out, kvColumns(name)),
    promptIds: readSafetensor(reference, "input_ids").values,
    logits: logits.values,
    greedyIds: readSafetensor(reference, "greedy_ids").values,
    vocabulary: logits.shape.at(-1)!,
  };
}

function kvColumns(name: string): number {
  const file = ["genai_config.json", "config.json"]
    .map((config) => join(data, "onnx", name, config))
    .find((path) => existsSync(path))!;
  const config = JSON.parse(readFileSync(file, "utf8")) as Record<string, never>;
  const decoder = (config["model"] as { decoder?: Record<string, number> } | undefined)?.decoder;
  return decoder
    ? decoder["num_key_value_heads"]! * decoder["head_size"]!
    : Number(config["num_key_value_heads"]) *
        Number(config["head_dim"] ?? config["hidden_size"]! / config["num_attention_heads"]!);
}

function makeRun(
  session: number,
  firstPosition: number,
  count: number,
  output: Output,
  generation = 0,
): Run {
  return { session, generation, firstPosition, count, output };
}

// One run of token ids through all layers, cut into stages at `cuts`.
async function forward(
  engine: OrtEngine,
  model: SplitModel,
  run: Run,
  ids: number[],
  cuts: number[],
): Promise<StepOutput> {
  const ends = [...cuts, model.layerCount];
  let first = 0;
  let hidden = new Float32Array(0);
  let output: StepOutput | null = null;
  for (const end of ends) {
    const isLast = end === model.layerCount;
    output = await engine.step({
      layers: { first, end },
      runs: [{ ...run, output: isLast ? run.output : { kind: "hidden" } }],
      tokenIds: first === 0 ? Int32Array.from(ids) : new Int32Array(0),
      hidden,
    });
    hidden = new Float32Array(output.hidden);
    first = end;
  }
  return output!;
}

function worstDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(actual.length).toBe(expected.length);
  let worst = 0;
  for (let i = 0; i < expected.length; ++i) {
    worst = Math.max(worst, Math.abs(actual[i]! - expected[i]!));
  }
  return worst;
}

async function loaded(model: SplitModel): Promise<OrtEngine> {
  const engine = new OrtEngine(runtime, budget, 2);
  await engine.load({ first: 0, end: model.layerCount }, model);
  return engine;
}

describe.skipIf(!isThere)("OrtEngine on wasm (needs reference data and build/release/weft)", () => {
  beforeAll(async () => {
    runtime = await startRuntime(ort, "wasm", budget);
  }, 60_000);

  // Tolerances: f16 forms were checked by onnxruntime itself with other kernels for the same ops.
  it.each([
    ["qwen3-genai", 1e-3],
    ["qwen3-genai-int4", 5e-3],
    ["qwen3-moe-genai-int4", 5e-3],
    ["llama3-optimum", 1e-3],
    ["llama3-dynamo", 1e-3],
    ["gemma2-optimum", 1e-3],
    ["qwen3-genai-2025-fp16", 2e-2],
  ])("%s: logits and greedy ids of the reference, in stages", async (name, tolerance) => {
    const { model, promptIds, logits, greedyIds } = open(name);
    const engine = await loaded(model);
    try {
      const whole = await forward(
        engine,
        model,
        makeRun(1, 0, promptIds.length, { kind: "logits" }),
        promptIds,
        [2, 4],
      );
      expect(worstDifference(whole.logits, logits)).toBeLessThanOrEqual(tolerance);
      // Greedy in a session of its own, other cuts, prompt in two chunks.
      const half = promptIds.length >> 1;
      const head = promptIds.slice(0, half);
      await forward(engine, model, makeRun(2, 0, half, { kind: "none" }), head, [1]);
      let ids = promptIds.slice(half);
      let position = half;
      const greedy: number[] = [];
      while (greedy.length < greedyIds.length) {
        const step = makeRun(2, position, ids.length, { kind: "argmax" });
        const { selections } = await forward(engine, model, step, ids, [1]);
        position += ids.length;
        const best = selections[0]!.candidates;
        const margin = best[0]!.logit - best[1]!.logit;
        if (best[0]!.tokenId !== greedyIds[greedy.length] && margin < 10 * tolerance) break;
        greedy.push(best[0]!.tokenId);
        ids = [greedyIds[greedy.length - 1]!];
      }
      expect(greedy).toEqual(greedyIds.slice(0, greedy.length));
      expect(greedy.length).toBeGreaterThan(3);
    } finally {
      await engine.dispose();
    }
  }, 120_000);

  describe("sessions", () => {
    let reference: Reference;
    let engine: OrtEngine;
    const all = (): LayerRange => ({ first: 0, end: reference.model.layerCount });

    beforeAll(async () => {
      reference = open("qwen3-genai");
      engine = await loaded(reference.model);
    }, 60_000);
    afterAll(async () => engine.dispose());

    async function rows(run: Run, ids: number[]): Promise<Float32Array> {
      return (await forward(engine, reference.model, run, ids, [])).logits;
    }
    function expected(first: number, end: number): number[] {
      return reference.logits.slice(first * reference.vocabulary, end * reference.vocabulary);
    }

    it("a higher generation truncates; what does not continue is refused", async () => {
      const { promptIds } = reference;
      await rows(makeRun(10, 0, 20, { kind: "logits" }), promptIds.slice(0, 20));
      await rows(makeRun(10, 20, 3, { kind: "logits" }), [1, 2, 3]); // a wrong continuation
      await expect(
        rows(makeRun(10, 20, 1, { kind: "logits" }), [promptIds[20]!]),
      ).rejects.toThrow("holds 23 positions");
      const again = makeRun(10, 20, 5, { kind: "logits" }, 1);
      const logits = await rows(again, promptIds.slice(20, 25));
      expect(worstDifference(logits, expected(20, 25))).toBeLessThan(1e-3);
      await engine.truncate(10, 2, 4);
      expect(engine.heldSession(10, all()).positions).toBe(4);
      const third = await rows(makeRun(10, 4, 2, { kind: "logits" }, 2), promptIds.slice(4, 6));
      expect(worstDifference(third, expected(4, 6))).toBeLessThan(1e-3);
      engine.release(10);
      expect(engine.heldSession(10, all()).positions).toBe(0);
    });

    it("a ragged batch of sessions gives what each gives alone", async () => {
      const { promptIds, model } = reference;
      await rows(makeRun(20, 0, 7, { kind: "none" }), promptIds.slice(0, 7));
      const output = await engine.step({
        layers: all(),
        runs: [
          makeRun(20, 7, 2, { kind: "logits" }),
          makeRun(21, 0, 4, { kind: "candidates", count: 5 }),
          makeRun(22, 0, 1, { kind: "none" }),
          makeRun(23, 0, 3, { kind: "logits" }),
          makeRun(24, 0, 4, { kind: "draw", count: 1, sampling: kLiftOne, uniform: 0 }),
        ],
        tokenIds: Int32Array.from([
          ...promptIds.slice(7, 9),
          ...promptIds.slice(0, 4),
          9,
          ...promptIds.slice(0, 3),
          ...promptIds.slice(0, 4),
        ]),
        hidden: new Float32Array(0),
      });
      expect(
        worstDifference(output.logits, [...expected(7, 9), ...expected(0, 3)]),
      ).toBeLessThan(1e-3);
      const row = expected(3, 4);
      const order = row.map((_, id) => id).sort((a, b) => row[b]! - row[a]! || a - b);
      const selection = output.selections[0]!;
      expect(selection.candidates.map((candidate) => candidate.tokenId)).toEqual(order.slice(0, 5));
      const sum = row.reduce((total, logit) => total + Math.exp(logit), 0);
      expect(selection.logsumexp).toBeCloseTo(Math.log(sum), 3);
      expect(selection.scaledSum).toBeCloseTo(sum / Math.exp(row[order[0]!]!), 2);
      const drawn = output.selections[1]!;
      expect(drawn.candidates[0]!.tokenId).toBe(order[0]);
      expect(drawn.drawn!.tokenId).toBe(200);
      expect(Math.abs(drawn.drawn!.logit - row[200]!)).toBeLessThan(1e-3);
      expect(model.layerCount).toBe(6);
      engine.releaseAll();
    });

    it("KV goes out and in, and a fork shares nothing", async () => {
      const { promptIds, model } = reference;
      await rows(makeRun(30, 0, 12, { kind: "none" }), promptIds.slice(0, 12));
      const all = { first: 0, end: model.layerCount };
      await engine.fork(all, { from: 30, to: 31, generation: 0, positionCount: 9 });
      for (let layer = 1; layer < model.layerCount - 1; ++layer) {
        const kv = await engine.exportKv(30, layer, 0, 12);
        expect(kv.length).toBe(12 * (model.layerKvBytes(layer) / 2));
        await engine.importKv(32, 0, layer, 0, 5, await engine.exportKv(30, layer, 0, 5));
        await engine.importKv(32, 0, layer, 5, 7, await engine.exportKv(30, layer, 5, 7));
        expect(await engine.exportKv(32, layer, 0, 12)).toEqual(kv);
        await expect(engine.importKv(33, 0, layer, 0, 5, kv)).rejects.toThrow("values");
      }
      const forked = await rows(makeRun(31, 9, 2, { kind: "logits" }), promptIds.slice(9, 11));
      expect(worstDifference(forked, expected(9, 11))).toBeLessThan(1e-3);
      // Imported KV went through f16.
      const imported = await rows(makeRun(32, 12, 2, { kind: "logits" }), promptIds.slice(12, 14));
      expect(worstDifference(imported, expected(12, 14))).toBeLessThan(2e-2);
      const original = await rows(makeRun(30, 12, 1, { kind: "logits" }), [promptIds[12]!]);
      expect(worstDifference(original, expected(12, 13))).toBeLessThan(1e-3);
      engine.releaseAll();
      expect(engine.memory().kvBytes).toBe(0);
    });

    it("what is wrong is refused with a sentence", async () => {
      const step = (runs: Run[], ids: number[], layers = all()): Promise<StepOutput> =>
        engine.step({ layers, runs, tokenIds: Int32Array.from(ids), hidden: new Float32Array(0) });
      const logits: Output = { kind: "logits" };
      await expect(step([], [])).rejects.toThrow("at least one run");
      await expect(step([makeRun(1, 0, 2, logits)], [1])).rejects.toThrow("was given 1 token ids");
      await expect(step([makeRun(1, 0, 1, { kind: "hidden" })], [1])).rejects.toThrow(
        "output head",
      );
      await expect(
        step([makeRun(1, 0, 1, logits), makeRun(1, 1, 1, logits)], [1, 2]),
      ).rejects.toThrow("two runs");
      await expect(step([makeRun(1, 3, 1, logits)], [1])).rejects.toThrow(
        "must begin at position 0",
      );
      await expect(step([makeRun(1, 0, 1, logits)], [1], { first: 0, end: 9 })).rejects.toThrow(
        "Layer 6 is not loaded",
      );
      const bad = new Float32Array(reference.model.hiddenColumns).fill(NaN);
      const hidden = { layers: { first: 1, end: 3 }, tokenIds: new Int32Array(0), hidden: bad };
      await expect(
        engine.step({ ...hidden, runs: [makeRun(1, 0, 1, { kind: "hidden" })] }),
      ).rejects.toThrow("64 values that are not finite");
      expect(engine.heldSession(1, all()).positions).toBe(0);
    });

    it("a layer that is unloaded forgets its sessions, the others keep theirs", async () => {
      const { promptIds, model } = reference;
      await rows(makeRun(50, 0, 6, { kind: "none" }), promptIds.slice(0, 6));
      await engine.unload({ first: 3, end: 4 });
      expect(engine.isLoaded(all())).toBe(false);
      await engine.load(all(), model);
      await expect(rows(makeRun(50, 6, 1, { kind: "logits" }), [promptIds[6]!])).rejects.toThrow(
        "is unknown in layer 3",
      );
      expect(engine.heldSession(50, { first: 1, end: 3 }).positions).toBe(6);
      engine.releaseAll();
    });
  });

  it("a value that is not finite fails the step, names the layer and keeps nothing", async () => {
    const { model } = open("qwen3-genai-2025-fp16");
    const layers = { first: 2, end: 4 };
    const engine = new OrtEngine(runtime, budget, 2);
    await engine.load(layers, model);
    const kvBytes = engine.memory().kvBytes;
    const step = {
      layers,
      runs: [makeRun(40, 0, 1, { kind: "hidden" } as const)],
      tokenIds: new Int32Array(0),
      hidden: new Float32Array(model.hiddenColumns).fill(1e6), // beyond f16
    };
    await expect(engine.step(step)).rejects.toThrow(
      /Layer 3 computed \d+ values that are not finite, first in session 40 at position 0/,
    );
    expect(engine.heldSession(40, layers).positions).toBe(0);
    expect(engine.memory().kvBytes).toBe(kvBytes);
    await engine.dispose();
  });

  it("refuses to grow beyond the offer", async () => {
    const { model } = open("qwen3-genai");
    const small = new HeapBudget(1);
    const engine = new OrtEngine(runtime, small, 2);
    await expect(engine.load({ first: 0, end: 2 }, model)).rejects.toThrow("the offer is 1 bytes");
    expect(engine.isLoaded({ first: 0, end: 1 })).toBe(false);
    expect(small.otherBytes).toBe(0);
  });
});
