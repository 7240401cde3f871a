// Whole models against the native engine: the same package, logits of every row of the prompt and
// the greedy continuation. Needs build/release/weft (or WEFT); models beyond those of the
// repository come from the test data (WEFT_DATA). A software adapter takes some seconds for each,
// so that a few stand for all of them unless WEFT_ALL_MODELS is set.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
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
const checkpoints = join(data, "checkpoints");
const recent = join(data, "checkpoints-2026");
const gpu = existsSync(weft) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-whole-"));
afterAll(() => rmSync(folder, { recursive: true }));

const isEvery = process.env["WEFT_ALL_MODELS"] !== undefined;
// Trained, with experts, with sinks and windows, with two kinds of heads.
const kEveryDay = ["stories260K", "qwen3-moe", "gpt-oss", "gemma4"];
// Of the families of 2026.
const kRecent = [
  ...["cohere2", "deepseek-v2", "deepseek-v3", "ernie4_5", "exaone4", "gemma4", "gemma4-e"],
  ...["gemma4-moe", "gemma4-unified", "gemma4-wrapped", "glm4", "glm4-moe", "glm4-moe-lite"],
  ...["granite", "hunyuan", "ministral3", "olmo2", "olmo3", "seed-oss", "smollm3"],
];

interface Model {
  readonly name: string;
  readonly folder: string;
  readonly quantisation: "f32" | "f16";
}

// f16 keys and values send a row near a tie between experts to another one, so models with experts
// are only compared in f32.
const kInF16 = ["weft-tiny", "stories260K", "qwen3", "gemma2"];

function models(): Model[] {
  const folders: [string, string][] = [
    ["weft-tiny", join(root, "models/weft-tiny")],
    ["weft-tiny-moe", join(root, "models/weft-tiny-moe")],
  ];
  if (existsSync(data)) folders.push(["stories260K", join(data, "stories260K")]);
  const names = existsSync(checkpoints) ? readdirSync(checkpoints).sort() : [];
  for (const name of names) folders.push([name, join(checkpoints, name)]);
  if (existsSync(recent)) for (const name of kRecent) folders.push([name, join(recent, name)]);
  const chosen = isEvery ? folders : folders.filter(([name]) => kEveryDay.includes(name));
  return chosen.flatMap(([name, path]) => {
    const exact = { name, folder: path, quantisation: "f32" } as const;
    return kInF16.includes(name) ? [exact, { ...exact, quantisation: "f16" } as const] : [exact];
  });
}

interface Reference {
  readonly prompt_ids: number[];
  readonly output_ids: number[];
  readonly logits: number[]; // [prompt tokens, vocabulary]
}

// More rows than a head pass takes, fewer than a body pass.
const kPromptTokens = 11;
const kTokens = 8;

function promptOf(vocabulary: number): number[] {
  return Array.from({ length: kPromptTokens }, (_, i) => (i * 7919 + 1251) % vocabulary);
}

function convert({ name, folder: from, quantisation }: Model): PackageFolder {
  const out = join(folder, `${name}-${quantisation}`);
  const args = ["convert", from, out, "--quant", quantisation, "--no-tokenizer"];
  execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
  return new PackageFolder(out);
}

function native(path: string, prompt: readonly number[]): Reference {
  const ids = prompt.join(",");
  const args = ["generate", path, "--prompt-ids", ids, "--max-tokens", String(kTokens)];
  const stdout = execFileSync(weft, [...args, "--json", "--logits"], {
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  return JSON.parse(stdout) as Reference;
}

function step(engine: WebGpuEngine, source: PackageFolder, run: Run, ids: readonly number[]) {
  const tokenIds = Int32Array.from(ids);
  const hidden = new Float32Array(0);
  return engine.step({ layers: source.range, runs: [run], tokenIds, hidden });
}

describe.skipIf(!gpu)("whole models (needs build/release/weft)", { timeout: 600_000 }, () => {
  for (const model of models()) {
    const limit = model.quantisation === "f32" ? 1e-3 : 2e-2;
    it(`${model.name} in ${model.quantisation}: what the native engine gives`, async () => {
      const source = convert(model);
      const { manifest } = source;
      const prompt = promptOf(manifest.vocabulary);
      const path = join(folder, `${model.name}-${model.quantisation}`);
      const reference = native(path, prompt);
      const engine = new WebGpuEngine(gpu!, {
        ...kDefaultOptions,
        kvDtype: model.quantisation,
        residualDtype: manifest.boundary_dtype,
      });
      await engine.load(source.range, source);
      const base = { session: 1, generation: 0, firstPosition: 0, count: prompt.length };
      const all: Run = { ...base, output: { kind: "logits" } };
      const { logits } = await step(engine, source, all, prompt);
      expect(logits.length).toBe(reference.logits.length);
      let worst = 0;
      for (const [i, value] of logits.entries()) {
        worst = Math.max(worst, Math.abs(value - reference.logits[i]!));
      }
      if (isEvery) console.info(`${model.name} ${model.quantisation} ${worst.toExponential(0)}`);
      expect(worst).toBeLessThanOrEqual(limit);
      await expectGreedy(engine, source, reference, limit);
      engine.freeBuffers();
    });
  }
});

// Every id is the native engine's up to the first step whose margin is below what the two may
// differ by; there either is right, and the continuations may part.
async function expectGreedy(
  engine: WebGpuEngine,
  source: PackageFolder,
  { prompt_ids: prompt, output_ids: expected }: Reference,
  limit: number,
): Promise<void> {
  const argmax = { kind: "argmax" } as const;
  const first = { session: 2, generation: 0, firstPosition: 0 };
  let output: StepOutput = await step(
    engine,
    source,
    { ...first, count: prompt.length, output: argmax },
    prompt,
  );
  expect(expected.length).toBe(kTokens);
  for (const [i, id] of expected.entries()) {
    const [best, second] = output.selections[0]!.candidates;
    if (best!.tokenId !== id) {
      expect(best!.logit - second!.logit, `token ${i} is another one`).toBeLessThan(limit);
      return;
    }
    if (i + 1 === expected.length) return;
    const firstPosition = prompt.length + i;
    const run = { ...first, firstPosition, count: 1, output: argmax };
    output = await step(engine, source, run, [id]);
  }
}

// The greedy ids that transformers computed for the models of the repository.
describe.skipIf(!gpu || !isEvery)("the models of the repository", { timeout: 600_000 }, () => {
  for (const name of ["weft-tiny", "weft-tiny-moe"]) {
    it(`${name}: transformers' continuation, made on the GPU alone`, async () => {
      const path = join(root, "models", name);
      const source = convert({ name: `${name}-again`, folder: path, quantisation: "f32" });
      const text = readFileSync(join(path, "expected.json"), "utf8");
      const [c] = (JSON.parse(text) as { cases: Record<string, number[]>[] }).cases;
      const prompt = c!["prompt_ids"]!;
      const greedy = c!["greedy_ids"]!;
      const close = c!["greedy_margin"]!.findIndex((margin) => margin < 1e-3);
      const sure = close < 0 ? greedy.length : close;
      const options = { ...kDefaultOptions, kvDtype: "f32" } as const;
      const engine = new WebGpuEngine(gpu!, options);
      await engine.load(source.range, source);
      const run = { session: 1, generation: 0, firstPosition: 0, count: prompt.length };
      const output = { kind: "argmax" } as const;
      const first = await step(engine, source, { ...run, output }, prompt);
      const made = [first.selections[0]!.candidates[0]!.tokenId];
      await engine.generate(source.range, {
        session: 1,
        generation: 0,
        firstPosition: prompt.length,
        firstToken: made[0]!,
        count: sure - 1,
        interval: 4,
        pipelined: true,
        onTokens: (tokens) => made.push(...tokens) > 0,
      });
      expect(made).toEqual(greedy.slice(0, sure));
      engine.freeBuffers();
    });
  }
});
