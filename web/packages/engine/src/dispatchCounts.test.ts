// How many dispatches a token takes, layer by layer, of models as converters write them: a number
// that does not depend on the device, and what small models and mixtures wait for on a large one.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import type { StepShape } from "./dispatch/dispatch.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { PackageFolder } from "./test/packageFolder.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const root = join(import.meta.dirname, "../../../..");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const data = process.env["WEFT_DATA"] ?? join(root, "build/test-data");
const gpu = existsSync(weft) && existsSync(data) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-counts-"));
afterAll(() => rmSync(folder, { recursive: true }));

// Of one row, and of a row of each of eight sessions that decode together.
const kOne: StepShape = { rows: 1, chunks: 1, runs: 1 };
const kEight: StepShape = { rows: 8, chunks: 1, runs: 8, isApart: true };

async function countsOf(name: string): Promise<number[]> {
  const out = join(folder, name.replace("/", "-"));
  const args = ["convert", join(data, name), out, "--quant", "q4", "--no-tokenizer"];
  execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
  const source = new PackageFolder(out);
  // Serial lanes: integers of several rows need no dispatch of their own.
  const tuning = { products: "f32", lanes: "serial", outputs: 16, tileRows: 4 } as const;
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, residualDtype: "f16", tuning });
  await engine.load(source.range, source);
  const counts: number[] = [];
  for (let index = source.range.first + 1; index + 1 < source.range.end; ++index) {
    const { layer } = engine.machine.dispatchesOf(index);
    const [one, eight] = [kOne, kEight].map((shape) => layer.filter(({ when }) => when(shape)));
    expect(eight!.length, `eight rows of layer ${index}`).toBe(one!.length);
    counts.push(one!.length);
  }
  engine.freeBuffers();
  return counts;
}

const kCounts: Readonly<Record<string, readonly number[]>> = {
  "checkpoints/llama3": [5, 5, 5, 5],
  "checkpoints/qwen3": [5, 5, 5, 5],
  "checkpoints/phi3": [5, 5, 5, 5],
  "checkpoints/gemma3": [7, 7, 7, 7],
  "checkpoints/gpt-oss": [8, 8, 8, 8],
  "checkpoints-2026/gemma4": [7, 7, 7, 7],
  "checkpoints-2026/gemma4-moe": [14, 14, 14, 14],
  "checkpoints-2026/glm4-moe-lite": [8, 13, 13, 13],
  "checkpoints-2026/granite": [5, 5, 5, 5],
  "checkpoints-2026/granite-h": [13, 13, 11, 13],
  "checkpoints-2026/qwen3_5": [8, 8, 8, 5],
  "checkpoints-2026/qwen3_5-moe": [13, 13, 13, 10],
};

describe.skipIf(!gpu)("dispatches (needs build/release/weft)", { timeout: 600_000 }, () => {
  for (const [name, counts] of Object.entries(kCounts)) {
    it(`of a token in the layers of ${name}`, async () => {
      expect(await countsOf(name)).toEqual(counts);
    });
  }
});
