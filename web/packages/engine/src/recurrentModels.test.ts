// Models with recurrent state on the GPU: logits against what transformers gave in f32
// (checkpoints-2026 of the test data), and the promises of stageEngine.ts: the same bits however
// the prompt is cut, whoever is in the batch, after cutting back to a mark, and where tokens are
// made ahead; anything else is refused.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import type { GenerateRequest, Run, StepOutput } from "./stage/stageEngine.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { PackageFolder } from "./test/packageFolder.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const root = join(import.meta.dirname, "../../../..");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const data = process.env["WEFT_DATA"] ?? join(root, "build/test-data");
const checkpoints = join(data, "checkpoints-2026");
const gpu = existsSync(weft) && existsSync(checkpoints) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-recurrent-"));
afterAll(() => rmSync(folder, { recursive: true }));

const kModels = [
  ...["qwen3_5", "qwen3_5-moe", "qwen3-next"],
  ...["lfm2", "lfm2-moe", "granite-h", "nemotron-h"],
];

// Of delta rules, of convolutions, and of state spaces.
const kOneOfEachKind = ["qwen3_5", "lfm2", "granite-h"];

interface Reference {
  readonly ids: readonly number[];
  readonly logits: Float32Array; // [ids, vocabulary]
}

function referenceOf(name: string): Reference {
  const file = readFileSync(join(checkpoints, name, "reference.safetensors"));
  const headBytes = Number(file.readBigUInt64LE(0));
  const head = JSON.parse(file.toString("utf8", 8, 8 + headBytes)) as Record<
    string,
    { data_offsets: [number, number] }
  >;
  const bytesOf = (tensor: string): ArrayBuffer => {
    const [first, end] = head[tensor]!.data_offsets;
    return Uint8Array.from(file.subarray(8 + headBytes + first, 8 + headBytes + end)).buffer;
  };
  return {
    ids: [...new BigInt64Array(bytesOf("input_ids"))].map(Number),
    logits: new Float32Array(bytesOf("logits")),
  };
}

async function load(name: string): Promise<{ engine: WebGpuEngine; source: PackageFolder }> {
  const out = join(folder, name);
  if (!existsSync(out)) {
    const args = ["convert", join(checkpoints, name), out, "--quant", "f32", "--no-tokenizer"];
    execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
  }
  const source = new PackageFolder(out);
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, kvDtype: "f32" });
  await engine.load(source.range, source);
  return { engine, source };
}

// A package on an engine, and what transformers gave for it.
class Loaded {
  readonly name: string;
  readonly engine: WebGpuEngine;
  readonly source: PackageFolder;
  readonly reference: Reference;

  private constructor(
    name: string,
    engine: WebGpuEngine,
    source: PackageFolder,
    reference: Reference,
  ) {
    this.name = name;
    this.engine = engine;
    this.source = source;
    this.reference = reference;
  }

  static async of(name: string): Promise<Loaded> {
    const { engine, source } = await load(name);
    return new Loaded(name, engine, source, referenceOf(name));
  }

  // Enough for every promise; a GPU made of software takes its time for each.
  get ids(): readonly number[] {
    return this.reference.ids.slice(0, 26);
  }

  get others(): number[] {
    return this.ids.map((id) => (id * 7 + 3) % this.source.manifest.vocabulary);
  }

  rows(logits: ArrayLike<number>, first: number, end: number): number[] {
    const { vocabulary } = this.source.manifest;
    return Array.from(logits).slice(first * vocabulary, end * vocabulary);
  }

  async step(runs: readonly Run[], tokens: readonly number[]): Promise<StepOutput> {
    const tokenIds = Int32Array.from(tokens);
    const hidden = new Float32Array(0);
    return await this.engine.step({ layers: this.source.range, runs, tokenIds, hidden });
  }

  // All logits of the tokens.
  async logits(place: Place, tokens: readonly number[]): Promise<number[]> {
    const run: Run = { ...place, count: tokens.length, output: { kind: "logits" } };
    return Array.from((await this.step([run], tokens)).logits);
  }
}

type Place = Omit<Run, "output" | "count">;

function at(session: number, generation: number, firstPosition: number): Place {
  return { session, generation, firstPosition };
}

async function expectReference(model: Loaded): Promise<void> {
  const logits = await model.logits(at(1, 0, 0), model.reference.ids);
  let worst = 0;
  for (const [i, value] of logits.entries()) {
    const expected = model.reference.logits[i]!;
    worst = Math.max(worst, Math.abs(value - expected));
    if (Math.abs(value - expected) <= 1e-3) continue;
    expect.fail(`logit ${i} is ${value}, expected ${expected}`);
  }
  if (process.env["WEFT_ALL_MODELS"] !== undefined) {
    console.info(`${model.name} f32 ${worst.toExponential(0)}`);
  }
}

async function expectAnyCut(model: Loaded): Promise<void> {
  const { ids } = model;
  const whole = await model.logits(at(1, 0, 0), ids);
  // How many tokens each step has: as prompts begin, as they are cut, as answers go on.
  const cuts = [
    [1, 25],
    [7, 7, 7, 5],
    [20, 1, 1, 1, 1, 1, 1],
  ];
  let session = 1;
  for (const counts of cuts) {
    ++session;
    const parts: number[] = [];
    let first = 0;
    for (const count of counts) {
      parts.push(...(await model.logits(at(session, 0, first), ids.slice(first, first + count))));
      first += count;
    }
    expect(parts, `steps of ${counts.join(" ")} tokens`).toEqual(whole);
  }
}

async function expectMarks(model: Loaded): Promise<void> {
  const { ids, others, engine } = model;
  const whole = await model.logits(at(1, 0, 0), ids);
  await model.logits({ ...at(20, 0, 0), marks: 4 }, ids.slice(0, 10));
  await model.logits({ ...at(20, 0, 10), marks: 4 }, others.slice(0, 12));
  await model.logits(at(20, 0, 22), others.slice(12, 15));
  for (const position of [1, 9, 11, 23, 24]) {
    const refused = model.logits(at(20, 1, position), ids.slice(0, 1));
    await expect(refused, `${position}`).rejects.toThrow(/at the marks 10 22, not at/);
    await expect(engine.truncate(20, 1, position)).rejects.toThrow(/recurrent state/);
    const fork = { from: 20, to: 50, generation: 0, positionCount: position };
    await expect(engine.fork(model.source.range, fork)).rejects.toThrow(/recurrent state/);
  }
  await engine.fork(model.source.range, { from: 20, to: 21, generation: 0, positionCount: 10 });
  const rest = model.rows(whole, 10, ids.length);
  expect(await model.logits(at(20, 1, 10), ids.slice(10))).toEqual(rest);
  expect(await model.logits(at(21, 0, 10), ids.slice(10))).toEqual(rest);
  const gone = model.logits(at(20, 2, 22), ids.slice(22, 23));
  await expect(gone).rejects.toThrow(/at the marks 10, not/);
  expect(await model.logits(at(20, 2, 0), ids)).toEqual(whole);
  const unknown = model.logits(at(30, 0, 3), ids.slice(3, 5));
  await expect(unknown).rejects.toThrow(/must begin at position 0/);
}

async function expectAnyBatch(model: Loaded): Promise<void> {
  const { ids, others } = model;
  const whole = await model.logits(at(1, 0, 0), ids);
  await model.logits(at(40, 0, 0), ids.slice(0, 5));
  await model.logits(at(41, 0, 0), others.slice(0, 9));
  const { logits } = await model.step(
    [
      { ...at(41, 0, 9), count: 4, output: { kind: "none" } },
      { ...at(40, 0, 5), count: 15, output: { kind: "logits" } },
      { ...at(42, 0, 0), count: 3, output: { kind: "none" } },
    ],
    [...others.slice(9, 13), ...ids.slice(5, 20), ...others.slice(0, 3)],
  );
  expect(Array.from(logits)).toEqual(model.rows(whole, 5, 20));
}

// Steps of two sessions that are under way at once, two of each. Room for pages and states of the
// second one is made while the first one's is computed.
async function expectAtOnce(model: Loaded): Promise<void> {
  const { ids, others, engine } = model;
  const parts = [ids.slice(0, 3), others, ids.slice(3), ids.slice(0, 9)];
  const places = [at(70, 0, 0), at(71, 0, 0), at(70, 0, 3), at(71, 0, others.length)];
  const shifted = places.map((place) => ({ ...place, session: place.session + 10 }));
  const together = await Promise.all(places.map((place, i) => model.logits(place, parts[i]!)));
  for (const [i, place] of shifted.entries()) {
    expect(together[i]).toEqual(await model.logits(place, parts[i]!));
  }
  // What is refused changes nothing for the other one.
  const refused = model.logits(at(72, 0, 3), ids.slice(3, 5));
  const [, taken] = await Promise.allSettled([refused, model.logits(at(73, 0, 0), ids)]);
  await expect(refused).rejects.toThrow(/must begin at position 0/);
  expect(taken).toEqual({ status: "fulfilled", value: await model.logits(at(83, 0, 0), ids) });
  expect(engine.heldSession(72, model.source.range).positions).toBe(0);
}

const best = (values: readonly number[]): number => values.indexOf(Math.max(...values));

// The greedy tokens behind the first seven of `ids`, step by step, and the logits of each.
async function stepped(
  model: Loaded,
  session: number,
  ids: readonly number[],
  count: number,
): Promise<{ tokens: number[]; logits: number[][] }> {
  const prompt = await model.logits(at(session, 0, 0), ids.slice(0, kPrompt));
  const tokens = [best(model.rows(prompt, kPrompt - 1, kPrompt))];
  const logits: number[][] = [];
  while (logits.length < count) {
    logits.push(await model.logits(at(session, 0, kPrompt + logits.length), tokens.slice(-1)));
    tokens.push(best(logits.at(-1)!));
  }
  return { tokens, logits };
}

const kPrompt = 7;
const kAhead = 13;

// A session that has the prompt, with a mark behind it, and wants tokens ahead.
class Ahead {
  readonly made: number[] = [];
  readonly request: GenerateRequest;

  constructor(session: number, firstToken: number, wish: Partial<GenerateRequest> = {}, most = 99) {
    this.request = {
      ...at(session, 0, kPrompt), firstToken, count: kAhead, interval: 4, pipelined: true, ...wish,
      onTokens: (tokens) => this.made.push(...tokens) < most,
    };
  }

  static async run(model: Loaded, ids: readonly number[], all: readonly Ahead[]): Promise<void> {
    for (const { request } of all) {
      await model.logits({ ...at(request.session, 0, 0), marks: 4 }, ids.slice(0, kPrompt));
    }
    const waiting = all.map(({ request }) => request);
    const source = { take: () => waiting.splice(0), pauses: () => false };
    await model.engine.generateAll(model.source.range, source);
  }
}

// Tokens that are made ahead are those of steps, wherever they end; behind them the session stands
// with the state of steps, to the bit. One of each kind of state ends at every kind of place; the
// others have two ends each.
async function expectAhead(model: Loaded): Promise<void> {
  const isOwnKind = kOneOfEachKind.includes(model.name);
  const { ids, engine } = model;
  const { tokens, logits } = await stepped(model, 1, ids, kAhead + 1);
  const [first, ...rest] = tokens as [number, ...number[]];
  // Ends of batches lie behind 1, 2, 4, 8, 12 and 13 tokens; a stop token is the first of its kind
  // among those that follow.
  const places = [...rest.keys()].filter((i) => rest.indexOf(rest[i]!) === i);
  const wishes = isOwnKind ? [0, 2, 4, 6, 10] : [2, 6];
  const stops = wishes.map((i) => places.find((place) => place >= i) ?? 0);
  expect(stops.some((place) => ![1, 2, 4, 8, 12, 13].includes(place + 1))).toBe(true);
  const stopped = stops.map((place, i) => new Ahead(10 + i, first, { stopTokens: [rest[place]!] }));
  const others = [
    new Ahead(20, first, { count: 5, interval: 40 }),
    new Ahead(21, first, { pipelined: false, interval: 3 }),
    new Ahead(22, first, {}, 6), // nobody wants more than the eight of whole batches
    new Ahead(23, first),
  ].slice(0, isOwnKind ? 4 : 1);
  await Ahead.run(model, ids, stopped.slice(0, 1)); // alone
  await Ahead.run(model, ids, [...others, ...stopped.slice(1)]);
  const lengths = [...stops.map((place) => place + 1), 5, kAhead, 8, kAhead];
  for (const [i, { made, request }] of [...stopped, ...others].entries()) {
    const length = lengths[i]!;
    const { session } = request;
    expect(made, `session ${session}`).toEqual(rest.slice(0, length));
    expect(engine.heldSession(session, model.source.range).positions).toBe(kPrompt + length);
    const next = await model.logits(at(session, 0, kPrompt + length), [rest[length - 1]!]);
    expect(next, `behind session ${session}`).toEqual(logits[length]);
    const again = await model.logits(at(session, 1, kPrompt), [first]); // the prompt's mark
    expect(again, `session ${session} at its mark`).toEqual(logits[0]);
  }
}

// No slot is lost, whatever ends a Generate.
async function expectNoLeak(model: Loaded): Promise<void> {
  const { ids, engine } = model;
  const { tokens } = await stepped(model, 1, ids, 3);
  const [first, , stop] = tokens as [number, number, number];
  const round = async (session: number): Promise<number> => {
    const all = [
      new Ahead(session, first, { stopTokens: [stop] }),
      new Ahead(session + 1, first, { count: 6 }),
      new Ahead(session + 2, first, {}, 1),
    ];
    await Ahead.run(model, ids, all);
    const { kvBytes } = engine.memory();
    for (const { request } of all) engine.release(request.session);
    return kvBytes;
  };
  const bytes = await round(10);
  for (let session = 20; session < 60; session += 10) expect(await round(session)).toBe(bytes);
}

// Where memory does not allow for many states, tokens are made one after the other.
async function expectTight(model: Loaded): Promise<void> {
  const { ids, source } = model;
  const { tokens } = await stepped(model, 1, ids, 6);
  const [first, ...rest] = tokens as [number, ...number[]];
  const options = { ...kDefaultOptions, kvDtype: "f32" } as const;
  let promptBytes = 0; // that an engine takes behind the prompt
  const ahead = async (memoryLimitBytes: number): Promise<{ told: number[]; made: number[] }> => {
    const own = new WebGpuEngine(gpu!, { ...options, memoryLimitBytes });
    await own.load(source.range, source);
    const output = { kind: "none" } as const;
    await own.step({
      layers: source.range,
      runs: [{ ...at(1, 0, 0), count: kPrompt, output }],
      tokenIds: Int32Array.from(ids.slice(0, kPrompt)),
      hidden: new Float32Array(0),
    });
    const { weightBytes, kvBytes, scratchBytes } = own.memory();
    promptBytes = weightBytes + kvBytes + scratchBytes;
    const [told, made]: [number[], number[]] = [[], []];
    await own.generate(source.range, {
      ...at(1, 0, kPrompt), firstToken: first, count: 6, interval: 4, pipelined: true,
      onTokens: (several) => {
        told.push(several.length);
        made.push(...several);
        return true;
      },
    });
    own.freeBuffers();
    return { told, made };
  };
  const wide = await ahead(0);
  expect(wide).toEqual({ told: [1, 1, 2, 2], made: rest.slice(0, 6) });
  // Room for as many states as a step takes, and not for those of tokens ahead.
  const tight = await ahead(promptBytes + 300);
  expect(tight).toEqual({ told: [1, 1, 1, 1, 1, 1], made: rest.slice(0, 6) });
}

async function expectNoSuchState(model: Loaded): Promise<void> {
  const { ids, engine, source } = model;
  await model.logits(at(1, 0, 0), ids.slice(0, kPrompt));
  const odd: GenerateRequest = {
    ...at(1, 1, 3), firstToken: ids[3]!, count: 2, interval: 1, pipelined: true,
    onTokens: () => true,
  };
  await expect(engine.generate(source.range, odd)).rejects.toThrow(/no mark, not at 3/);
  expect(engine.heldSession(1, source.range).positions).toBe(kPrompt);
}

const kPromisesOfAll = [
  ["the logits that transformers gave", expectReference],
  ["the tokens of steps, made ahead", expectAhead],
] as const;

// What a mixture, or another model with the same kind of state, adds nothing to.
const kPromisesOfStates = [
  ["the same bits however the prompt is cut", expectAnyCut],
  ["cut back to marks with the same bits, and to nothing else", expectMarks],
  ["the same bits in any batch", expectAnyBatch],
  ["the same bits of steps under way at once", expectAtOnce],
  ["no slot lost by tokens ahead", expectNoLeak],
  ["no tokens ahead from where no state is held", expectNoSuchState],
  ["tokens one after the other where memory is short", expectTight],
] as const;

describe.skipIf(!gpu)("recurrent models (needs build/release/weft)", { timeout: 600_000 }, () => {
  for (const name of kModels) {
    const isOwnKind = kOneOfEachKind.includes(name);
    const promises = isOwnKind ? [...kPromisesOfAll, ...kPromisesOfStates] : kPromisesOfAll;
    let model: Loaded | null = null;
    for (const [what, check] of promises) {
      it(`${name}: ${what}`, async () => {
        model ??= await Loaded.of(name);
        await check(model);
        model.engine.releaseAll();
      });
    }
    afterAll(() => model?.engine.freeBuffers());
  }
});
