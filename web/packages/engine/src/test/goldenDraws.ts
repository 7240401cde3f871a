// The golden draws of tests/golden, which C++ (src/sampling), TypeScript (sampling/) and the GPU's
// kernels (kernels/sample/) all read: rows of logits, parameters, positions, and the tokens that
// must come out. draws.json is made by tests/golden/make_draws.py in Python's doubles; sampler.json
// has the edges of every parameter and vocabularies as large as models have. Tests only.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import type { Sampling } from "../sampling/parameters.ts";
import { counterUniform } from "./sampleOracle.ts";

export const kGreedy: Sampling = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0n,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: new Map(),
  seen: new Map(),
};

export interface GoldenDraw {
  readonly name: string;
  readonly vocabulary: number;
  readonly sampling: Sampling;
  readonly positions: readonly number[];
  readonly tokens: readonly number[]; // of each position, each from the same history
  readonly logits: () => Float32Array<ArrayBuffer>;
}

interface Parameters {
  vocabulary: number;
  seed: string;
  first_position: number;
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
  repetition_penalty: number;
  presence_penalty: number;
  frequency_penalty: number;
  logit_bias: [number, number][];
  history: number[];
  tokens: number[];
}

interface ByFormula extends Parameters {
  name: string;
  salt: number;
}

interface Random extends Parameters {
  logits_seed: number;
  spread: number;
  levels: number;
}

function casesOf<Case>(file: string): Case[] {
  const path = fileURLToPath(new URL(`../../../../../tests/golden/${file}`, import.meta.url));
  return (JSON.parse(readFileSync(path, "utf8")) as { cases: Case[] }).cases;
}

function samplingOf(c: Parameters): Sampling {
  const seen = new Map<number, number>();
  for (const id of c.history) seen.set(id, (seen.get(id) ?? 0) + 1);
  return {
    temperature: Math.fround(c.temperature),
    topK: c.top_k,
    topP: Math.fround(c.top_p),
    minP: Math.fround(c.min_p),
    repetitionPenalty: Math.fround(c.repetition_penalty),
    presencePenalty: Math.fround(c.presence_penalty),
    frequencyPenalty: Math.fround(c.frequency_penalty),
    logitBias: new Map(c.logit_bias),
    seen,
    seed: BigInt(c.seed),
  };
}

function drawOf(c: Parameters, name: string, logitOf: (id: number) => number): GoldenDraw {
  const { vocabulary, first_position: first, tokens } = c;
  return {
    name,
    vocabulary,
    sampling: samplingOf(c),
    positions: tokens.map((_, i) => first + i),
    tokens,
    logits: () => Float32Array.from({ length: vocabulary }, (_, id) => logitOf(id)),
  };
}

// A few high ones and many low ones; with `levels` many equal ones.
function randomLogit({ logits_seed: seed, spread, levels }: Random, id: number): number {
  const uniform = counterUniform(BigInt(seed), id);
  const square = Math.fround(uniform * uniform);
  const logit = Math.fround(Math.fround(square * square) * spread);
  return levels > 0 ? Math.floor(logit * levels) / levels : logit;
}

function nameOf({ tokens: _, history: __, first_position: ___, ...rest }: Random): string {
  return JSON.stringify(rest);
}

export const goldenDraws: readonly GoldenDraw[] = [
  ...casesOf<ByFormula>("draws.json").map((c) =>
    drawOf(c, c.name, (id) => ((id * id * 37 + id * 101 + c.salt) % 1009) / 64 - 8),
  ),
  ...casesOf<Random>("sampler.json").map((c) =>
    drawOf(c, nameOf(c), (id) => randomLogit(c, id)),
  ),
];
