// A model whose last layers attend to the keys and values of earlier ones, and whose layers have
// embeddings of their own, on the GPU: logits in every format against the native engine with the
// same weights, keys and values and rows in f32, and the promises of stageEngine.ts.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import type { Run, StepOutput } from "./stage/stageEngine.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { PackageFolder } from "./test/packageFolder.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const root = join(import.meta.dirname, "../../../..");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const data = process.env["WEFT_DATA"] ?? join(root, "build/test-data");
const checkpoint = join(data, "checkpoints-2026/gemma4-e");
const gpu = existsSync(weft) && existsSync(checkpoint) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-shared-"));
afterAll(() => rmSync(folder, { recursive: true }));

const ids = Array.from({ length: 24 }, (_, i) => (i * 7919 + 1251) % 320);
const others = ids.map((id) => (id * 7 + 3) % 320);

// In this format, but with keys, values and rows in f32 whoever computes.
function convert(quantisation: string): string {
  const out = join(folder, quantisation);
  if (existsSync(out)) return out;
  const args = ["convert", checkpoint, out, "--quant", quantisation, "--no-tokenizer"];
  execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
  const path = join(out, "weft.json");
  const manifest = JSON.parse(readFileSync(path, "utf8")) as object;
  const exact = { ...manifest, quantisation: "f32", boundary_dtype: "f32" };
  writeFileSync(path, JSON.stringify(exact));
  return out;
}

function nativeLogits(path: string): number[] {
  const args = ["generate", path, "--prompt-ids", ids.join(","), "--max-tokens", "1"];
  const options = { encoding: "utf8", maxBuffer: 1 << 28 } as const;
  const stdout = execFileSync(weft, [...args, "--json", "--logits"], options);
  return (JSON.parse(stdout) as { logits: number[] }).logits;
}

class Loaded {
  readonly source: PackageFolder;
  readonly engine: WebGpuEngine;

  constructor(quantisation = "f32") {
    this.source = new PackageFolder(convert(quantisation));
    this.engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, kvDtype: "f32" });
  }

  static async of(quantisation = "f32"): Promise<Loaded> {
    const model = new Loaded(quantisation);
    await model.engine.load(model.source.range, model.source);
    return model;
  }

  get end(): number {
    return this.source.range.end;
  }

  async step(runs: readonly Run[], tokens: readonly number[]): Promise<StepOutput> {
    const tokenIds = Int32Array.from(tokens);
    const hidden = new Float32Array(0);
    return await this.engine.step({ layers: this.source.range, runs, tokenIds, hidden });
  }

  async logits(place: Place, tokens: readonly number[]): Promise<number[]> {
    const run: Run = { ...place, count: tokens.length, output: { kind: "logits" } };
    return Array.from((await this.step([run], tokens)).logits);
  }
}

type Place = Omit<Run, "output" | "count">;

function at(session: number, generation: number, firstPosition: number): Place {
  return { session, generation, firstPosition };
}

function rows(logits: ArrayLike<number>, first: number, end: number): number[] {
  return Array.from(logits).slice(first * 320, end * 320);
}

async function expectAnyCut(model: Loaded): Promise<void> {
  const whole = await model.logits(at(1, 0, 0), ids);
  let session = 1;
  for (const chunk of [1, 7, ids.length - 1]) {
    ++session;
    const parts: number[] = [];
    for (let first = 0; first < ids.length; first += chunk) {
      parts.push(...(await model.logits(at(session, 0, first), ids.slice(first, first + chunk))));
    }
    expect(parts, `chunks of ${chunk}`).toEqual(whole);
  }
}

async function expectAnyBatch(model: Loaded): Promise<void> {
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
  expect(Array.from(logits)).toEqual(rows(whole, 5, 20));
}

async function expectCutBack(model: Loaded): Promise<void> {
  const whole = await model.logits(at(1, 0, 0), ids);
  await model.logits(at(2, 0, 0), ids.slice(0, 10));
  await model.logits(at(2, 0, 10), others.slice(0, 9));
  await model.engine.fork(model.source.range, { from: 2, to: 3, generation: 0, positionCount: 10 });
  const rest = rows(whole, 10, ids.length);
  expect(await model.logits(at(2, 1, 10), ids.slice(10))).toEqual(rest);
  expect(await model.logits(at(3, 0, 10), ids.slice(10))).toEqual(rest);
}

async function expectHeadApart(model: Loaded): Promise<void> {
  const whole = await model.logits(at(1, 0, 0), ids);
  const { engine, end } = model;
  const run = { ...at(5, 0, 0), count: ids.length };
  const hidden = await engine.step({
    layers: { first: 0, end: end - 1 },
    runs: [{ ...run, output: { kind: "hidden" } }],
    tokenIds: Int32Array.from(ids),
    hidden: new Float32Array(0),
  });
  expect(hidden.hidden.length).toBe(ids.length * model.source.manifest.hidden_columns);
  const { logits } = await engine.step({
    layers: { first: end - 1, end },
    runs: [{ ...run, output: { kind: "logits" } }],
    tokenIds: new Int32Array(0),
    hidden: hidden.hidden,
  });
  expect(Array.from(logits)).toEqual(whole);
}

async function expectRefusals(model: Loaded): Promise<void> {
  const { engine, source, end } = model;
  const columns = 64 + 6 * 16; // the stream, and what six layers read
  const run: Run = { ...at(6, 0, 0), count: 1, output: { kind: "none" } };
  const step = engine.step({
    layers: { first: 5, end: end - 1 },
    runs: [run],
    tokenIds: new Int32Array(0),
    hidden: new Float32Array(columns),
  });
  await expect(step).rejects.toThrow(/Layer 5 attends to the keys and values of layer 4/);
  const alone = new Loaded();
  const sharing = { first: 5, end: 6 };
  await expect(alone.engine.load(sharing, source)).rejects.toThrow(/layer 4, which is not loaded/);
  alone.engine.freeBuffers();
  await engine.unload({ first: 4, end: 5 });
  expect(engine.isLoaded({ first: 5, end: 6 })).toBe(false);
  expect(engine.isLoaded({ first: 0, end: 4 })).toBe(true);
}

async function expectWholeModel(model: Loaded): Promise<void> {
  const { engine, source } = model;
  const first = ids.slice(0, 7);
  const logits = await model.logits(at(1, 0, 0), first);
  const best = (values: readonly number[]): number => values.indexOf(Math.max(...values));
  const stepped = [best(rows(logits, 6, 7))];
  while (stepped.length < 6) {
    const place = at(1, 0, first.length + stepped.length - 1);
    stepped.push(best(await model.logits(place, stepped.slice(-1))));
  }
  await model.logits(at(2, 0, 0), first);
  const made = stepped.slice(0, 1);
  await engine.generate(source.range, {
    ...at(2, 0, first.length),
    firstToken: made[0]!,
    count: 5,
    interval: 2,
    pipelined: true,
    onTokens: (tokens) => made.push(...tokens) > 0,
  });
  expect(made).toEqual(stepped);
}

const kPromises = [
  ["the same bits however the prompt is cut", expectAnyCut],
  ["the same bits in any batch", expectAnyBatch],
  ["the same bits after cutting back and in a fork", expectCutBack],
  ["the same bits with the head apart", expectHeadApart],
  ["no layer without those whose keys and values it reads", expectRefusals],
  ["the same tokens made on the GPU alone", expectWholeModel],
] as const;

describe.skipIf(!gpu)("shared keys and values", { timeout: 600_000 }, () => {
  for (const quantisation of ["f32", "q8", "q4"]) {
    it(`${quantisation}: what the native engine gives`, async () => {
      const model = await Loaded.of(quantisation);
      const expected = nativeLogits(convert(quantisation));
      const logits = await model.logits(at(1, 0, 0), ids);
      const errors = logits.map((value, i) => Math.abs(value - expected[i]!));
      expect(Math.max(...errors)).toBeLessThanOrEqual(1e-3);
      model.engine.freeBuffers();
    });
  }
  for (const [what, check] of kPromises) {
    it(what, async () => {
      const model = await Loaded.of();
      await check(model);
      model.engine.freeBuffers();
    });
  }
});
