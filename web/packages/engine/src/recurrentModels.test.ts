// Models with recurrent state on the GPU: logits against what transformers gave in f32
// (checkpoints-2026 of the test data), and the promises of stageEngine.ts: the same bits however
// the prompt is cut, whoever is in the batch, after cutting back to a mark; anything else is
// refused.
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

async function expectNoWholeModel(model: Loaded): Promise<void> {
  const { engine, source, ids } = model;
  const request: GenerateRequest = {
    ...at(1, 0, 0),
    firstToken: ids[0]!,
    count: 12,
    interval: 4,
    pipelined: true,
    onTokens: () => true,
  };
  await expect(engine.generate(source.range, request)).rejects.toThrow(/decodes step by step/);
  expect(engine.sessionLength(1, source.range)).toBe(0);
}

const kPromises = [
  ["the logits that transformers gave", expectReference],
  ["the same bits however the prompt is cut", expectAnyCut],
  ["cut back to marks with the same bits, and to nothing else", expectMarks],
  ["the same bits in any batch", expectAnyBatch],
  ["no whole-model decoding", expectNoWholeModel],
] as const;

describe.skipIf(!gpu)("recurrent models (needs build/release/weft)", { timeout: 600_000 }, () => {
  for (const name of kModels) {
    for (const [what, check] of kPromises) {
      it(`${name}: ${what}`, async () => {
        const model = await Loaded.of(name);
        await check(model);
        model.engine.freeBuffers();
      });
    }
  }
});
