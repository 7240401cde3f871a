// Several sessions decoding in one batch: each gets what it gets alone, whoever comes and goes.
import { beforeAll, describe, expect, it } from "vitest";

import { countCreations } from "./test/countedDevice.ts";
import { kGreedy } from "./test/goldenDraws.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { kShapes, RandomModel } from "./test/randomModel.ts";
import type { Sampling } from "./sampling/parameters.ts";
import type { GenerateRequest, TokenSource } from "./stage/stageEngine.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const model = new RandomModel(kShapes["tiny"]!);
const all = model.range;

type Wish = Partial<Omit<GenerateRequest, "onTokens" | "onFailed">>;

// What one session is told.
class Talk {
  readonly tokens: number[] = [];
  readonly lasts: boolean[] = [];
  readonly counts: number[] = []; // told at once
  readonly failures: unknown[] = [];
  readonly request: GenerateRequest;

  constructor(session: number, wish: Wish = {}, most = Infinity) {
    this.request = {
      session, generation: 0, firstPosition: kPrompt, firstToken: 20 + session, count: 10,
      interval: 4, pipelined: true, ...wish,
      onTokens: (tokens, isLast) => {
        this.tokens.push(...tokens);
        this.lasts.push(isLast);
        this.counts.push(tokens.length);
        return this.tokens.length < most;
      },
      onFailed: (error) => this.failures.push(error),
    };
  }
}

const kPrompt = 9;
const drawn = (change: Partial<Sampling>): Wish =>
  ({ sampling: { ...kGreedy, temperature: 1.3, seed: 77n, ...change } });
// Of every kind: greedy, with every cut, penalised, greedy with penalties, biased.
const kWishes: readonly Wish[] = [
  {},
  drawn({ topK: 40, topP: 0.9, minP: 0.01 }),
  drawn({ frequencyPenalty: 1.5, seen: new Map([[21, 2], [5, 1]]) }),
  { sampling: { ...kGreedy, repetitionPenalty: 1.8, seen: new Map([[23, 1]]) } },
  drawn({ logitBias: new Map([[7, 4], [9, -5]]), topP: 0.5 }),
  { count: 3 },
  { interval: 1, count: 6 },
  drawn({ temperature: 0.7, topK: 5, seed: 2n ** 63n }),
  { count: 17, interval: 8 },
];

let engine: WebGpuEngine;

async function prompted(session: number): Promise<void> {
  const tokenIds = Int32Array.from({ length: kPrompt }, (_, i) => (i * 37 + 11 * session) % 300);
  const output = { kind: "none" } as const;
  const runs = [{ session, generation: 0, firstPosition: 0, count: kPrompt, output }];
  await engine.step({ layers: all, runs, tokenIds, hidden: new Float32Array(0) });
}

// Those of each time that the loop asks, while somebody goes on or anybody is to come.
function coming(...groups: (readonly Talk[])[]): TokenSource {
  const take = (): GenerateRequest[] => (groups.shift() ?? []).map(({ request }) => request);
  return { take, pauses: () => false };
}

const alone: number[][] = [];

beforeAll(async () => {
  if (!gpu) return;
  engine = new WebGpuEngine(gpu, { ...kDefaultOptions, residualDtype: "f16" });
  await engine.load(all, model);
  for (const [index, wish] of kWishes.entries()) {
    await prompted(index);
    const talk = new Talk(index, wish);
    await engine.generateAll(all, coming([talk]));
    expect(talk.tokens).toHaveLength(talk.request.count);
    alone.push(talk.tokens);
  }
  expect(engine.machine.layout.seats).toBe(1);
}, 600_000);

async function talks(pipelined: boolean): Promise<Talk[]> {
  engine.releaseAll();
  const made = kWishes.map((wish, index) => new Talk(index, { ...wish, pipelined }));
  for (const index of kWishes.keys()) await prompted(index);
  return made;
}

// What is left of a request, as a server says it again.
function restOf({ request, tokens }: Talk): GenerateRequest {
  const { sampling = kGreedy } = request;
  const seen = new Map(sampling.seen);
  for (const token of tokens) seen.set(token, (seen.get(token) ?? 0) + 1);
  return {
    ...request,
    firstPosition: request.firstPosition + tokens.length,
    firstToken: tokens.at(-1) ?? request.firstToken,
    count: request.count - tokens.length,
    sampling: { ...sampling, seen },
  };
}

describe.skipIf(!gpu)("whole-model decoding of several sessions", { timeout: 600_000 }, () => {
  it.each([true, false])("gives each what it gets alone, pipelined %s", async (pipelined) => {
    const made = await talks(pipelined);
    // One begins alone, so that there are more seats in the middle of a Generate.
    await engine.generateAll(all, coming(made.slice(2, 3), made.slice(0, 2), [], made.slice(3)));
    expect(made.map(({ tokens }) => tokens)).toEqual(alone);
    expect(made.every(({ lasts }) => lasts.filter(Boolean).length === 1)).toBe(true);
    for (const [index, { count = 10 }] of kWishes.entries()) {
      expect(engine.heldSession(index, all).positions).toBe(kPrompt + count);
    }
  });

  it("tells the first token at once, then more and more of them", async () => {
    engine.releaseAll();
    for (const session of [8, 0]) await prompted(session);
    const first = new Talk(8, kWishes[8]);
    await engine.generateAll(all, coming([first]));
    expect(first.counts).toEqual([1, 1, 2, 4, 8, 1]);
    expect(first.tokens).toEqual(alone[8]);
  });

  it("makes anew only what sees the keys and values where these get more room", async () => {
    const own = new WebGpuEngine(gpu!, { ...kDefaultOptions, residualDtype: "f16" });
    await own.load(all, model);
    const output = { kind: "argmax" } as const;
    const step = async (session: number): Promise<number> => {
      const tokenIds = Int32Array.from({ length: kPrompt }, (_, i) => 3 * i + session);
      const runs = [{ session, generation: 0, firstPosition: 0, count: kPrompt, output }];
      const made = await own.step({ layers: all, runs, tokenIds, hidden: new Float32Array(0) });
      return made.selections[0]!.candidates[0]!.tokenId;
    };
    // Eight pages are there in the beginning, and each session takes one.
    const made: number[] = [];
    for (let session = 0; session < 8; ++session) made.push(await step(session));
    const counted = countCreations(gpu!.device);
    made.push(await step(8));
    const { createBindGroup = 0, createBuffer = 0 } = counted.stop();
    const blocks = all.end - all.first - 2; // layers with attention
    expect(createBuffer).toBe(blocks);
    expect(createBindGroup).toBeGreaterThanOrEqual(blocks);
    const bound = own.machine.dispatchesOf(1).all.length;
    expect(createBindGroup).toBeLessThan((blocks * bound) / 2);
    own.releaseAll();
    for (let session = 0; session < 9; ++session) expect(await step(session)).toBe(made[session]);
    own.freeBuffers();
  });

  it("goes on where it paused, with what it was told", async () => {
    const made = await talks(true);
    let rounds = 0;
    for (let open = made; open.length > 0; ++rounds) {
      const before = open.map(({ tokens }) => tokens.length);
      const take = open.map(restOf);
      await engine.generateAll(all, { take: () => take.splice(0), pauses: () => true });
      open.forEach(({ tokens }, i) => expect(tokens.length).toBeGreaterThan(before[i]!));
      open = open.filter(({ tokens, request }) => tokens.length < request.count);
    }
    expect(made.map(({ tokens }) => tokens)).toEqual(alone);
    expect(rounds).toBeGreaterThan(3);
  });

});

describe.skipIf(!gpu)("ends within a batch", { timeout: 600_000 }, () => {
  it("ends one at its stop token, one where nobody wants more, and not the others", async () => {
    engine.releaseAll();
    for (const session of [0, 6, 8]) await prompted(session);
    const stop = alone[0]![4]!;
    const until = alone[0]!.indexOf(stop) + 1;
    const stopped = new Talk(0, { stopTokens: [stop] });
    const unwanted = new Talk(8, { ...kWishes[8], interval: 2 }, 4);
    const other = new Talk(6, kWishes[6]);
    await engine.generateAll(all, coming([stopped, unwanted, other]));
    expect(stopped.tokens).toEqual(alone[0]!.slice(0, until));
    expect(engine.heldSession(0, all).positions).toBe(kPrompt + until);
    expect(unwanted.tokens).toEqual(alone[8]!.slice(0, 4));
    expect(engine.heldSession(8, all).positions).toBe(kPrompt + 4);
    expect(other.tokens).toEqual(alone[6]);
    // They go on as if nothing had been computed behind.
    const rest = { firstPosition: kPrompt + 4, firstToken: alone[8]![3]!, count: 13 };
    const again = new Talk(8, { ...rest, interval: 8 });
    await engine.generateAll(all, coming([again]));
    expect([...unwanted.tokens, ...again.tokens]).toEqual(alone[8]);
  });

  it("refuses one and takes the others", async () => {
    const made = await talks(true);
    const wrong = new Talk(40, { firstPosition: 5 });
    const odd = new Talk(41, { firstPosition: 0, sampling: { ...kGreedy, temperature: 3 } });
    await engine.generateAll(all, coming([wrong, made[0]!, odd, made[1]!]));
    expect(wrong.failures).toHaveLength(1);
    expect(String(wrong.failures[0])).toContain("position 0");
    expect(String(odd.failures[0])).toContain("temperature is 3");
    expect([made[0]!.tokens, made[1]!.tokens]).toEqual([alone[0], alone[1]]);
    expect(engine.heldSession(41, all).positions).toBe(0);
  });

});

describe.skipIf(!gpu)("seats", { timeout: 600_000 }, () => {
  it("lets more than it has seats for wait, and creates one encoder a step", async () => {
    engine.releaseAll();
    const sessions = Array.from({ length: 35 }, (_, session) => session);
    for (const session of sessions) await prompted(session);
    const wish = { count: 4, interval: 4 };
    const made = sessions.map((session) => new Talk(session, wish));
    await engine.generateAll(all, coming(made.slice(0, 33)));
    expect(engine.machine.layout.seats).toBe(32);
    expect(made.slice(0, 33).every(({ tokens }) => tokens.length === 4)).toBe(true);
    expect(made[0]!.tokens).toEqual(alone[0]!.slice(0, 4));
    const counted = countCreations(gpu!.device);
    await engine.generateAll(all, coming(made.slice(33)));
    expect(counted.stop()).toEqual({ createCommandEncoder: 4 });
  });

  it("keeps the seats that it has where there is no memory for more", async () => {
    const small = new WebGpuEngine(gpu!, { ...kDefaultOptions, residualDtype: "f16" });
    await small.load(all, model);
    const { weightBytes, kvBytes, scratchBytes } = small.memory();
    small.freeBuffers();
    const memoryLimitBytes = weightBytes + 3 * kvBytes + scratchBytes + 100_000;
    const limited = { ...kDefaultOptions, residualDtype: "f16", memoryLimitBytes } as const;
    engine.freeBuffers();
    engine = new WebGpuEngine(gpu!, limited);
    await engine.load(all, model);
    const made = kWishes.map((wish, index) => new Talk(index, wish));
    for (const index of kWishes.keys()) await prompted(index);
    await engine.generateAll(all, coming(made));
    expect(engine.machine.layout.seats).toBe(1);
    expect(made.map(({ tokens }) => tokens)).toEqual(alone);
    engine.freeBuffers();
  });
});
