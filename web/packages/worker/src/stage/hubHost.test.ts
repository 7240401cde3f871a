// A tab as a hub on the GPU: real checkpoints without their experts, which a holder's engine
// computes, against the same steps with whole layers. Needs build/release/weft (or WEFT), which
// makes the packages.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { decodeProgram } from "@weft/engine/program/decode.ts";
import type { MoeExperts } from "@weft/engine/program/ir.ts";
import { sharedNodeGpu } from "@weft/engine/test/nodeGpu.ts";
import { PackageFolder } from "@weft/engine/test/packageFolder.ts";
import { kDefaultOptions, WebGpuEngine } from "@weft/engine/webgpuEngine.ts";
import {
  DType, ExpertFrameType, FrameType, OutputKind, RowType, decodeFrame, encodeFrame, floatRowsOf,
} from "@weft/wire";
import type { ExpertFrame, Init } from "@weft/wire";

import { ExpertBlobs } from "../download/expertBlobs.ts";
import { parseManifest } from "../download/manifest.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { init } from "../test/workerRig.ts";
import { ExpertHost } from "./expertHost.ts";
import type { AskForRows, RowsAway } from "./hubExchange.ts";
import { StageHost } from "./stageHost.ts";

const root = join(import.meta.dirname, "../../../../..");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const gpu = existsSync(weft) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-hub-"));
afterAll(() => rmSync(folder, { recursive: true }));

const run = (...args: string[]): void => {
  execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
};

function mixture(): string {
  const out = join(folder, "mixture");
  run("convert", join(root, "models/weft-tiny-moe"), out, "--quant", "f32", "--no-tokenizer");
  return out;
}

function groups(): string {
  const [dense, out, text] = ["dense", "groups", "text.jsonl"].map((name) => join(folder, name));
  writeFileSync(text!, JSON.stringify("Tell me a story about a fox."));
  run("convert", join(root, "models/weft-tiny"), dense!, "--quant", "f32");
  run("groups", dense!, out!, "--text", text!, "--columns", "64");
  return out!;
}

const engines: WebGpuEngine[] = [];
function newEngine(): Promise<WebGpuEngine> {
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, kvDtype: "f32" });
  engines.push(engine);
  return Promise.resolve(engine);
}
afterAll(() => engines.forEach((engine) => engine.freeBuffers()));

// A worker that holds all experts between embedding and head, asked as a server asks.
async function holderOf(source: PackageSource, layerCount: number): Promise<AskForRows> {
  const counts = new Map<number, number>(); // of experts, by layer
  for (let layer = 0; layer < layerCount; ++layer) {
    const { ops } = decodeProgram(await source.readBlob(source.layerProgram(layer)));
    const op = ops.find((each): each is MoeExperts => each.kind === "moeExperts");
    if (op) counts.set(layer, op.experts);
  }
  const engine = await newEngine();
  const host = new ExpertHost(layerCount, new ExpertBlobs(source), () => Promise.resolve(engine));
  const sets = [...counts].map(([layer, count]) =>
    ({ layer, experts: Array.from({ length: count }, (_, expert) => expert) }));
  for (let rest = 1; rest > 0;) ({ rest } = await host.install(sets, () => undefined));
  return async (away) => {
    const wanted = slotsOf(away, counts.get(away.layer)!);
    const { results } = await host.run(wanted.map(({ dispatch }) => dispatch));
    const sums = new Float32Array(away.tokens * away.hidden);
    for (const [i, { row, weight }] of wanted.entries()) {
      expect(results[i]!.failed).toBe(false);
      for (const [at, value] of floatRowsOf(results[i]!).entries()) {
        sums[row * away.hidden + at]! += weight * value;
      }
    }
    return sums;
  };
}

// A dispatch for each row and slot, or for each neuron group.
function slotsOf({ layer, slots, tokens, hidden, rows }: RowsAway, experts: number) {
  const columns = hidden + 2 * slots;
  return Array.from({ length: tokens }, (_, row) => {
    const own = rows.slice(row * columns, (row + 1) * columns);
    const bytes = new Uint8Array(own.slice(0, hidden).buffer);
    return Array.from({ length: slots === 0 ? experts : slots }, (__, slot) => {
      const [expert, weight] = slots === 0
        ? [slot, 1] : [own[hidden + slot]!, own[hidden + slots + slot]!];
      const dispatch: ExpertFrame = {
        type: ExpertFrameType.dispatch, sequence: 1, layer, expert, tokens: 1, hidden, rows: bytes,
        sameRows: false, failed: false, maySum: false, best: false, takesSteps: false, added: [],
        rowType: RowType.f32, body: new Uint8Array(0),
      };
      return { row, weight, dispatch };
    });
  }).flat();
}

function step(firstPosition: number, ids: readonly number[]): Parameters<StageHost["step"]>[0] {
  const of = {
    session: 1, generation: 0, firstPosition, count: ids.length, output: OutputKind.logits,
    candidateCount: 0,
  };
  const header = {
    type: FrameType.step, sequence: 1, binding: 1, stage: 0, rows: ids.length, columns: 1,
    dtype: DType.i32, queueUs: 0, computeUs: 0,
  };
  const payload = new Uint8Array(Int32Array.from(ids).buffer);
  const frame = decodeFrame(encodeFrame(header, [of], payload));
  return { frame, layers: { first: 0, end: 0 }, arrival: 0, isHub: false };
}

describe.skipIf(!gpu)("a tab as a hub (needs build/release/weft)", { timeout: 600_000 }, () => {
  it.each([
    ["of experts", mixture],
    ["of neuron groups", groups],
  ])("%s computes what it computes with whole layers", async (_, make) => {
    const path = make();
    const dropCopies = (): Promise<void> => Promise.resolve();
    const own = Object.assign(new PackageFolder(path), { dropCopies });
    const source = own as unknown as PackageSource;
    const manifest = parseManifest(readFileSync(join(path, "weft.json")));
    const layers = { first: 0, end: manifest.layers.length };
    const ask = await holderOf(source, layers.end);
    const host = new StageHost(manifest, source, newEngine, () => performance.now());
    const told = init().value as Init;
    const hub = await host.installHub(layers, told, () => undefined);
    const whole = await host.install(layers, true, told, () => undefined);
    expect(hub.usedBytes).toBeLessThan(whole.usedBytes);
    expect(Math.abs(hub.weightFactor - whole.weightFactor)).toBeLessThan(0.5);
    for (const each of [step(0, [5, 17, 3, 9, 40]), step(5, [7])]) {
      const [expected, got] = [
        await host.step({ ...each, layers }, ask),
        await host.step({ ...each, layers, isHub: true }, ask),
      ].map(({ message }) => new Float32Array(decodeFrame(message).payload.slice().buffer));
      const apart = got!.map((value, i) => Math.abs(value - expected![i]!));
      expect(Math.max(...apart)).toBeLessThan(1e-3);
    }
    const bindings = [false, true].map((isHub) => ({ id: 1, stage: 0, layers, isHub }));
    expect(host.takeStock(bindings, [1, 2]).map(({ positions }) => positions)).toEqual([[6], [6]]);
    await host.keep([], [layers]);
    expect(host.takeStock(bindings, [1]).map(({ positions }) => positions)).toEqual([[], [6]]);
    host.releaseSessions([1]);
    expect(host.takeStock(bindings, [1]).map(({ positions }) => positions)).toEqual([[], []]);
    await host.releaseAll();
    await expect(host.step({ ...step(0, [1]), layers, isHub: true }, ask)).rejects.toThrow(
      "is not loaded");
  });
});
