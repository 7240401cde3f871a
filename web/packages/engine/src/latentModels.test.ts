// Latent attention on the GPU: a row has the same bits alone, where attention makes query and key
// by itself, in a prompt, beside others, behind many positions, and in tokens made ahead. What the
// rows are is compared with the native engine's (wholeModels.test.ts).
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { Run } from "./stage/stageEngine.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { PackageFolder } from "./test/packageFolder.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const root = join(import.meta.dirname, "../../../..");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const data = process.env["WEFT_DATA"] ?? join(root, "build/test-data");
const gpu = existsSync(weft) && existsSync(data) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-latent-"));
afterAll(() => rmSync(folder, { recursive: true }));

const ids = Array.from({ length: 37 }, (_, i) => (i * 7919 + 1251) % 300);

let source: PackageFolder;
let engine: WebGpuEngine;

beforeAll(async () => {
  if (!gpu) return;
  const out = join(folder, "model");
  const checkpoint = join(data, "checkpoints-2026/glm4-moe-lite");
  const args = ["convert", checkpoint, out, "--quant", "q4", "--no-tokenizer"];
  execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
  source = new PackageFolder(out);
  engine = new WebGpuEngine(gpu, { ...kDefaultOptions, residualDtype: "f16" });
  await engine.load(source.range, source);
}, 600_000);

interface Rows {
  readonly session: number;
  readonly firstPosition: number;
  readonly tokens: readonly number[];
}

async function step(all: readonly Rows[], output: Run["output"]): Promise<number[]> {
  const { logits } = await engine.step({
    layers: source.range,
    runs: all.map(({ session, firstPosition, tokens }): Run => ({
      session, generation: 0, firstPosition, count: tokens.length, output,
    })),
    tokenIds: Int32Array.from(all.flatMap(({ tokens }) => [...tokens])),
    hidden: new Float32Array(0),
  });
  return [...logits];
}

const logits = (...all: readonly Rows[]): Promise<number[]> => step(all, { kind: "logits" });
const best = (of: readonly number[]): number => of.indexOf(Math.max(...of));

describe.skipIf(!gpu)("latent attention (needs build/release/weft)", { timeout: 600_000 }, () => {
  it("gives a row the same bits however the prompt is cut, and beside others", async () => {
    const whole = await logits({ session: 1, firstPosition: 0, tokens: ids });
    for (const [session, chunk] of [[2, 1], [3, 9]] as const) {
      const parts: number[] = [];
      for (let first = 0; first < ids.length; first += chunk) {
        const tokens = ids.slice(first, first + chunk);
        parts.push(...(await logits({ session, firstPosition: first, tokens })));
      }
      expect(parts, `chunks of ${chunk}`).toEqual(whole);
    }
    await logits({ session: 5, firstPosition: 0, tokens: ids.slice(0, 9) });
    const other = ids.map((id) => (id * 7 + 3) % 300);
    const both = await logits(
      { session: 6, firstPosition: 0, tokens: other.slice(0, 5) },
      { session: 5, firstPosition: 9, tokens: ids.slice(9, 10) },
    );
    const { vocabulary } = source.manifest;
    expect(both.slice(-vocabulary)).toEqual(whole.slice(9 * vocabulary, 10 * vocabulary));
  });

  it("gives it where attention is split over chunks, and with tokens made ahead", async () => {
    const length = 530;
    const before = length - 12;
    const many = Array.from({ length }, (_, i) => (i * 31 + 7) % 300);
    const prompt = async (session: number, from: number, end: number): Promise<void> => {
      for (let first = from; first < end; first += 128) {
        const tokens = many.slice(first, Math.min(end, first + 128));
        await step([{ session, firstPosition: first, tokens }], { kind: "none" });
      }
    };
    await prompt(20, 0, before);
    for (const to of [21, 22]) {
      await engine.fork(source.range, { from: 20, to, generation: 0, positionCount: before });
      await prompt(to, before, length - 1);
    }
    const tokens = many.slice(before);
    const rows = await logits({ session: 20, firstPosition: before, tokens });
    const last = rows.slice(-source.manifest.vocabulary);
    const alone = { session: 21, firstPosition: length - 1, tokens: many.slice(-1) };
    expect(await logits(alone)).toEqual(last);
    const stepped = [best(last)];
    for (let i = 0; i < 3; ++i) {
      const place = { session: 21, firstPosition: length + i };
      stepped.push(best(await logits({ ...place, tokens: stepped.slice(-1) })));
    }
    const made: number[] = [];
    const request = { session: 22, generation: 0, firstPosition: length - 1 };
    await engine.generate(source.range, {
      ...request, firstToken: many.at(-1)!, count: 4, interval: 2, pipelined: true,
      onTokens: (several) => made.push(...several) > 0,
    });
    expect(made).toEqual(stepped);
  });
});
