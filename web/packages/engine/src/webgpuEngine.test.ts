// The engine's verbs on whatever WebGPU device Node has, with a tiny Qwen3-shaped model.
import { describe, expect, it } from "vitest";

import { f32ToF16 } from "./base/half.ts";
import { kGreedy } from "./test/goldenDraws.ts";
import { countCreations } from "./test/countedDevice.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { drawToken } from "./test/sampleOracle.ts";
import { kShapes, RandomModel } from "./test/randomModel.ts";
import { selectRow } from "./stage/selectRow.ts";
import type { Output, Run, StepOutput } from "./stage/stageEngine.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const model = new RandomModel(kShapes["tiny"]!);
const kNoRows = new Float32Array(0);
const all = model.range;
const body = { first: 0, end: all.end - 1 };
const kHidden: Output = { kind: "hidden" };
const kArgmax: Output = { kind: "argmax" };

const ids = (count: number, shift = 0): number[] =>
  Array.from({ length: count }, (_, i) => ((i + shift) * 37 + 11) % 300);

let engine: WebGpuEngine;

function step(run: Partial<Run>, tokens: number[], layers = body): Promise<StepOutput> {
  const output = layers === all ? kArgmax : kHidden;
  const base = { session: 1, generation: 0, firstPosition: 0, count: tokens.length, output };
  const runs = [{ ...base, ...run }];
  return engine.step({ layers, runs, tokenIds: Int32Array.from(tokens), hidden: kNoRows });
}

// Positions [first, end) of canonical keys and values of 40 positions.
function part(kv: Uint16Array, first: number, end: number): Uint16Array {
  const columns = 2 * 16;
  const half = kv.length / 2;
  const of = (at: number): number[] => [...kv.slice(at + first * columns, at + end * columns)];
  return Uint16Array.from([...of(0), ...of(half)]);
}

// Canonical keys and values of so many positions: multiples of 1/64 between -2 and 2.
function keysAndValues(positions: number): Uint16Array {
  const columns = 2 * 16;
  const values = Float32Array.from(
    { length: 2 * positions * columns },
    (_, i) => ((i * 7919 + (i >> 5) * 31) % 257) / 64 - 2,
  );
  const bits = new Uint16Array(values.length);
  f32ToF16(values, bits);
  return bits;
}

describe.skipIf(!gpu)("WebGpuEngine: little workgroup memory", { timeout: 600_000 }, () => {
  it("gives the same bits as more of it", async () => {
    const rows: Float32Array[] = [];
    for (const workgroupBytes of [gpu!.limits.workgroupBytes, 16_384]) {
      const limits = { ...gpu!.limits, workgroupBytes };
      engine = new WebGpuEngine({ ...gpu!, limits }, { ...kDefaultOptions, residualDtype: "f16" });
      await engine.load(all, model);
      rows.push((await step({}, ids(300))).hidden);
      engine.freeBuffers();
    }
    expect(rows[1]).toEqual(rows[0]);
  });
});

// One engine through all of them, in this order.
describe.skipIf(!gpu)("WebGpuEngine: rows", { timeout: 600_000 }, () => {
  it("loads, and counts what it holds", async () => {
    engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, residualDtype: "f16" });
    await engine.load(all, model);
    expect(engine.isLoaded(all)).toBe(true);
    const { weightBytes, kvBytes, scratchBytes } = engine.memory();
    expect(weightBytes).toBeGreaterThan(50_000);
    expect(kvBytes).toBeGreaterThan(0);
    expect(scratchBytes).toBeGreaterThan(0);
  });

  it("gives a row the same bits alone, in chunks, and beside other sessions", async () => {
    const prompt = ids(41);
    const whole = (await step({ session: 1 }, prompt)).hidden;
    const chunks: number[] = [];
    for (const [first, end] of [[0, 1], [1, 6], [6, 15], [15, 41]] as const) {
      const run = { session: 2, firstPosition: first };
      chunks.push(...(await step(run, prompt.slice(first, end))).hidden);
    }
    expect(new Float32Array(chunks)).toEqual(whole);
    const other = ids(7, 3);
    const both = await engine.step({
      layers: body,
      runs: [3, 4].map((session) => ({
        session,
        generation: 0,
        firstPosition: 0,
        count: session === 3 ? 7 : 41,
        output: kHidden,
      })),
      tokenIds: Int32Array.from([...other, ...prompt]),
      hidden: kNoRows,
    });
    expect(both.hidden.slice(7 * 64)).toEqual(whole);
    const again = both.hidden.map((value) => Math.abs(value)).some((value) => value > 0);
    expect(again).toBe(true);
  });

  // One row of each conversation: the kernels are those of a single row, and so are the bits.
  it("computes rows of several sessions with the dispatches of one", async () => {
    const alone: Float32Array[] = [];
    for (const session of [20, 21, 22]) await step({ session }, ids(5 + session, session));
    const encoder = engine.machine.encoder;
    let before = encoder.dispatchCount;
    for (const session of [20, 21, 22]) {
      before = encoder.dispatchCount;
      alone.push((await step({ session, firstPosition: 5 + session }, [session])).hidden);
    }
    const ofOne = encoder.dispatchCount - before;
    for (const session of [23, 24, 25]) await step({ session }, ids(2 + session, session - 3));
    before = encoder.dispatchCount;
    const together = await engine.step({
      layers: body,
      runs: [23, 24, 25].map((session) => ({
        session, generation: 0, firstPosition: 2 + session, count: 1, output: kHidden,
      })),
      tokenIds: Int32Array.of(20, 21, 22),
      hidden: kNoRows,
    });
    expect(encoder.dispatchCount - before).toBe(ofOne);
    expect([...together.hidden]).toEqual(alone.flatMap((rows) => [...rows]));
  });
});

describe.skipIf(!gpu)("WebGpuEngine: many positions", { timeout: 600_000 }, () => {
  // Beyond 512 positions; the first 500 come from elsewhere, as a software adapter takes long.
  // A head a workgroup at first, and two where all heads have many chunks.
  it.each([500, 8300])("gives it where attention is split, behind %i", async (count) => {
    const before = keysAndValues(count);
    const prompt = ids(30, 500);
    for (const session of [10, 11]) {
      engine.release(session);
      for (let layer = 1; layer < body.end; ++layer) {
        await engine.importKv(session, 0, layer, 0, count, before);
      }
    }
    const whole = (await step({ session: 10, firstPosition: count }, prompt)).hidden.slice(-64);
    await step({ session: 11, firstPosition: count }, prompt.slice(0, -1));
    const last = await step({ session: 11, firstPosition: count + 29 }, prompt.slice(-1));
    expect(last.hidden).toEqual(whole);
    engine.release(12);
    const { hidden: without } = await step({ session: 12 }, prompt.slice(-1));
    expect(without).not.toEqual(whole);
  });
});

describe.skipIf(!gpu)("WebGpuEngine: sessions", { timeout: 600_000 }, () => {
  it("truncates, forks, and moves keys and values", async () => {
    const prompt = ids(40);
    engine.releaseAll();
    await step({ session: 1 }, prompt);
    const next = (await step({ session: 1, firstPosition: 40 }, [5])).hidden;

    await engine.truncate(1, 1, 35);
    expect(engine.heldSession(1, body).positions).toBe(35);
    await step({ session: 1, generation: 1, firstPosition: 35 }, prompt.slice(35));
    const replayed = await step({ session: 1, generation: 1, firstPosition: 40 }, [5]);
    expect(replayed.hidden).toEqual(next);

    await engine.fork(body, { from: 1, to: 2, generation: 0, positionCount: 40 });
    const again = { from: 1, to: 2, generation: 0, positionCount: 40 };
    await expect(engine.fork(body, again)).rejects.toThrow("is in generation 0");
    await step({ session: 3 }, ids(3)); // what the last step left must not pass for a result
    const forked = await step({ session: 2, firstPosition: 40 }, [5]);
    expect(forked.hidden).toEqual(next);
    await step({ session: 2, firstPosition: 41 }, ids(30));
    await engine.truncate(1, 2, 40); // what the fork appended must not show here
    await step({ session: 3, firstPosition: 3 }, ids(3));
    const kept = await step({ session: 1, generation: 2, firstPosition: 40 }, [5]);
    expect(kept.hidden).toEqual(next);

    for (let layer = 1; layer < body.end; ++layer) {
      const kv = await engine.exportKv(1, layer, 0, 40);
      expect(kv.length).toBe(2 * 40 * 2 * 16);
      await engine.importKv(7, 0, layer, 0, 33, part(kv, 0, 33));
      await engine.importKv(7, 0, layer, 33, 7, part(kv, 33, 40));
      expect(await engine.exportKv(7, layer, 0, 40)).toEqual(kv);
    }
    await step({ session: 3, firstPosition: 6 }, ids(3));
    const moved = await step({ session: 7, firstPosition: 40 }, [5]);
    expect(moved.hidden).toEqual(next);
  });

  it("refuses what does not continue a session, and changes nothing", async () => {
    engine.releaseAll();
    await step({ session: 1 }, ids(4));
    await expect(step({ session: 1, firstPosition: 3 }, [1])).rejects.toThrow("cannot follow");
    await expect(step({ session: 2, firstPosition: 1 }, [1])).rejects.toThrow("position 0");
    await expect(step({ session: 2 }, [300])).rejects.toThrow("outside the vocabulary");
    await expect(step({ session: 2, output: kArgmax }, [1])).rejects.toThrow("output head");
    await expect(step({}, [1], { first: 0, end: 9 })).rejects.toThrow("not loaded");
    await expect(engine.importKv(2, 0, 1, 0, 4, new Uint16Array(3))).rejects.toThrow("3 came");
    expect(engine.heldSession(1, body).positions).toBe(4);
    expect(engine.heldSession(2, body).positions).toBe(0);
  });
});

describe.skipIf(!gpu)("WebGpuEngine: choosing tokens", { timeout: 600_000 }, () => {
  it("gives candidates, sums and draws of the row of logits that it gives", async () => {
    engine.releaseAll();
    const prompt = ids(9);
    const { logits } = await step({ session: 1, output: { kind: "logits" } }, prompt, all);
    const row = logits.slice(-300);
    const plain = {
      temperature: 1.7, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1, presencePenalty: 0,
      frequencyPenalty: 0, logitBias: new Map<number, number>(), seen: new Map(), seed: 1n,
    };
    const cold = { ...plain, temperature: 0.25 };
    const penalties = { ...plain, presencePenalty: 2, seen: new Map([[5, 1], [299, 2]]) };
    const biased = { ...plain, logitBias: new Map([[299, 9]]) };
    const outputs: Output[] = [
      { kind: "candidates", count: 3 },
      { kind: "candidates", count: 256, sampling: plain },
      { kind: "candidates", count: 4, sampling: cold },
      { kind: "candidates", count: 20, sampling: penalties },
      { kind: "draw", count: 2, sampling: biased, uniform: 0.3 },
      { kind: "draw", count: 0, sampling: plain, uniform: 0.999 },
      kArgmax,
    ];
    const runs = outputs.map((output, i) => (
      { session: 10 + i, generation: 0, firstPosition: 0, count: 9, output }));
    const tokenIds = Int32Array.from(runs.flatMap(() => prompt));
    const { selections } = await engine.step({ layers: all, runs, tokenIds, hidden: kNoRows });
    expect(selections).toHaveLength(outputs.length);
    for (const [i, output] of outputs.entries()) {
      if (output.kind === "none" || output.kind === "hidden" || output.kind === "logits") continue;
      const expected = selectRow(row, output);
      const got = selections[i]!;
      expect(got.candidates).toEqual(expected.candidates);
      expect(got.drawn).toEqual(expected.drawn);
      expect(got.logsumexp).toBeCloseTo(expected.logsumexp, 4);
      if (output.kind !== "candidates") continue;
      expect(got.scaledSum! / expected.scaledSum!).toBeCloseTo(1, 5);
    }
  });

  it("refuses draws beside which too much is asked", async () => {
    const sampling = {
      temperature: 1, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1, presencePenalty: 0,
      frequencyPenalty: 0, logitBias: new Map<number, number>(), seen: new Map(), seed: 1n,
    };
    const output: Output = { kind: "draw", count: 21, sampling, uniform: 0 };
    await expect(step({ session: 77, output }, [1], all)).rejects.toThrow(
      "asks for 21 tokens beside a draw; expected 0 to 20",
    );
  });
});

describe.skipIf(!gpu)("WebGpuEngine: decoding", { timeout: 600_000 }, () => {
  it("creates nothing while decoding but encoder, pass and command buffer", async () => {
    engine.releaseAll();
    await step({ session: 1 }, ids(6), all);
    await step({ session: 1, firstPosition: 6 }, [9], all);
    const counted = countCreations(gpu!.device);
    const before = engine.machine.encoder.dispatchCount;
    await step({ session: 1, firstPosition: 7 }, [10], all);
    const dispatches = engine.machine.encoder.dispatchCount - before;
    const made = counted.stop();
    expect(made).toEqual({ createCommandEncoder: 1 });
    // Embedding; five a layer; check; gather, norm + product, two of argmax.
    expect(dispatches).toBe(1 + 5 * 2 + 1 + 1 + 1 + 2);
  });

  it("decodes greedily on its own what it decodes step by step", async () => {
    engine.releaseAll();
    const prompt = ids(9);
    let output = await step({ session: 1 }, prompt, all);
    const expected = [output.selections[0]!.candidates[0]!.tokenId];
    for (let i = 0; i < 10; ++i) {
      output = await step({ session: 1, firstPosition: 9 + i }, [expected.at(-1)!], all);
      expected.push(output.selections[0]!.candidates[0]!.tokenId);
    }
    for (const [session, interval, pipelined, reuse] of [
      [2, 1, false, true], [3, 4, true, true], [4, 3, true, false],
    ] as const) {
      await step({ session }, prompt, all);
      engine.machine.encoder.reuse = reuse;
      const made: number[] = [];
      const count = await engine.generate(all, {
        session,
        generation: 0,
        firstPosition: 9,
        firstToken: expected[0]!,
        count: 10,
        interval,
        pipelined,
        onTokens: (tokens) => made.push(...tokens) > 0,
      });
      expect(made).toEqual(expected.slice(1));
      expect(count).toBe(10);
      expect(engine.heldSession(session, all).positions).toBe(19);
    }
    engine.machine.encoder.reuse = true;
  });

});

describe.skipIf(!gpu)("WebGpuEngine: whole-model decoding", { timeout: 600_000 }, () => {
  it("samples what the logits, the seed and the position say, and creates nothing", async () => {
    engine.releaseAll();
    const prompt = ids(9);
    const sampling = { ...kGreedy, temperature: 1.2, topP: 0.9, minP: 0.01, seed: 77n };
    const options = { generation: 0, firstPosition: 9, count: 8, pipelined: true, sampling };
    const made: number[] = [];
    const onTokens = (tokens: readonly number[]): boolean => made.push(...tokens) > 0;
    await step({ session: 1 }, prompt, all);
    await engine.generate(all, {
      ...options, session: 1, firstToken: 21, count: 1, interval: 1, onTokens,
    });
    made.length = 0;
    await step({ session: 2 }, prompt, all);
    const counted = countCreations(gpu!.device);
    await engine.generate(all, { ...options, session: 2, firstToken: 21, interval: 3, onTokens });
    const created = counted.stop();
    // One for each token.
    expect(created).toEqual({ createCommandEncoder: 8 });

    await step({ session: 3 }, prompt, all);
    let token = 21;
    for (const [index, drawn] of made.entries()) {
      const run = { session: 3, firstPosition: 9 + index, output: { kind: "logits" } as const };
      const { logits } = await step(run, [token], all);
      const { token: expected, margin } = drawToken(logits, sampling, 10 + index);
      expect(drawn === expected || margin < 1e-5).toBe(true);
      token = drawn;
    }
    expect(new Set(made).size).toBeGreaterThan(2);
  });

});

describe.skipIf(!gpu)("WebGpuEngine: ends of whole-model decoding", { timeout: 600_000 }, () => {
  it("throws away what it computed behind a stop token", async () => {
    engine.releaseAll();
    const prompt = ids(9);
    const request = { generation: 0, firstPosition: 9, firstToken: 5, count: 12, pipelined: true };
    const free: number[] = [];
    await step({ session: 1 }, prompt, all);
    await engine.generate(all, {
      ...request, session: 1, interval: 4, onTokens: (tokens) => free.push(...tokens) > 0,
    });
    const stop = free[5]!;
    const until = free.indexOf(stop) + 1;
    const made: number[] = [];
    await step({ session: 2 }, prompt, all);
    const count = await engine.generate(all, {
      ...request,
      session: 2,
      interval: 4,
      stopTokens: [stop],
      onTokens: (tokens) => made.push(...tokens) > 0,
    });
    expect(made).toEqual(free.slice(0, until));
    expect(count).toBe(until);
    expect(engine.heldSession(2, all).positions).toBe(9 + until);
    // And the session goes on from there as if nothing had been computed behind.
    await engine.generate(all, {
      ...request,
      session: 2,
      firstPosition: 9 + until,
      firstToken: stop,
      count: 12 - until,
      interval: 2,
      onTokens: (tokens) => made.push(...tokens) > 0,
    });
    expect(made).toEqual(free);
  });

  it("refuses sampling that is out of range", async () => {
    const sampling = { ...kGreedy, temperature: 3 };
    const request = {
      session: 9, generation: 0, firstPosition: 0, firstToken: 1, count: 1, interval: 1,
      pipelined: false, sampling, onTokens: () => true,
    };
    await expect(engine.generate(all, request)).rejects.toThrow("temperature is 3");
    const bias = { ...request, sampling: { ...kGreedy, logitBias: new Map([[300, 1]]) } };
    await expect(engine.generate(all, bias)).rejects.toThrow("logit_bias is 300");
    expect(engine.heldSession(9, all).positions).toBe(0);
  });
});

describe.skipIf(!gpu)("WebGpuEngine: memory", { timeout: 600_000 }, () => {
  it("never takes more than the offer", async () => {
    const options = { ...kDefaultOptions, memoryLimitBytes: 90_000 };
    const small = new WebGpuEngine(gpu!, options);
    await expect(small.load(all, model)).rejects.toMatchObject({ code: "out_of_memory" });
    expect(small.isLoaded({ first: 0, end: 1 })).toBe(false);
    expect(small.memory().weightBytes).toBe(0);
    small.freeBuffers();
  });

  it("frees what it unloads", async () => {
    await engine.unload(all);
    expect(engine.memory()).toMatchObject({ weightBytes: 0, kvBytes: 0 });
    engine.freeBuffers();
    expect(engine.memory().scratchBytes).toBe(0);
  });
});
