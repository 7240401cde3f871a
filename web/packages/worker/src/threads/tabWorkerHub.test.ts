// A tab as a hub, with the test in the place of the server: what it downloads and loads, and how a
// step goes on with the rows that the server gives.
import { expect, it } from "vitest";

import type { StepInput, StepOutput, WeightSource } from "@weft/engine";
import { decodeProgram } from "@weft/engine/program/decode.ts";
import { hubProgram } from "@weft/engine/program/hubProgram.ts";
import { RouteKind } from "@weft/engine/program/ir.ts";
import type { Program } from "@weft/engine/program/ir.ts";
import { blobsOf } from "@weft/engine/program/shards.ts";
import { mixtureModel } from "@weft/engine/test/mixtureModel.ts";
import {
  DType, ExpertFrameType, FrameType, OutputKind, RowType, encodeFrame, encodeShardMessage,
  floatRowsOf,
} from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";

import { sha256Hex } from "../download/sha256.ts";
import { FakeEngine, fakeServer, kHidden, kVocabulary } from "../test/fakes.ts";
import type { FakePackage } from "../test/fakes.ts";
import { WorkerRig, until } from "../test/workerRig.ts";

const kLayerCount = 3;
const model = mixtureModel({ kind: RouteKind.softmaxTopKNormalized, topK: 2 }, [0, 1, 2]);
const programs = [0, 1, 2].map((layer) => decodeProgram(model.programBytes(layer)));

async function lowered(): Promise<FakePackage> {
  const digests = programs.map((program, layer) =>
    [model.layerProgram(layer), blobsOf(program)] as const);
  const blobs = new Map<string, Uint8Array<ArrayBuffer>>();
  const listed: Record<string, unknown> = {};
  for (const digest of digests.flatMap(([program, own]) => [program, ...own])) {
    const bytes = await model.readBlob(digest);
    blobs.set(digest, bytes);
    listed[digest] = { byte_count: bytes.length, chunks: [await sha256Hex(bytes)] };
  }
  const layers = digests.map(([program, own], index) =>
    ({ index, program, blobs: own, weight_bytes: 1000, kv_bytes_per_position: 64 }));
  const json = new TextEncoder().encode(JSON.stringify({
    format: 1, name: "mixture", quantisation: "f32", boundary_dtype: "f32",
    hidden_columns: kHidden, vocabulary: kVocabulary, lowered: true, layers, blobs: listed,
  }));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", json));
  return { json, digest, blobs, digests: [] };
}

// Gives rows away in the middle of a step, and answers with what comes for them.
class HubEngine extends FakeEngine {
  readonly programs: Program[] = [];

  async loadProgram(program: Program, source: WeightSource): Promise<void> {
    for (const digest of blobsOf(program)) await source.readBlob(digest);
    this.programs.push(program);
    this.loaded.add(program.layerIndex);
    this.table.addLayer(program.layerIndex, { kv: true, state: false });
  }

  override async step(input: StepInput): Promise<StepOutput> {
    const output = await super.step(input);
    const layer = input.layers.first;
    const out = Float32Array.from({ length: kHidden + 4 }, (_, i) => i);
    const request = { layer, id: 0, firstRow: 0, rowCount: 1, out, inColumns: kHidden };
    return { ...output, hidden: await input.exchange!(request) };
  }
}

const fake = await lowered();

async function hubRig(): Promise<{ rig: WorkerRig; requests: string[] }> {
  const { fetch, requests } = fakeServer(fake);
  const rig = new WorkerRig(fetch, false, 1, true);
  rig.makeEngine = () => new HubEngine();
  await rig.join({ packageDigest: fake.digest, layerCount: kLayerCount });
  const layers = { first: 1, end: 2 };
  rig.tell({ case: "prepareStage", value: { binding: 1, stage: 1, layers, isHub: true } });
  await rig.next("prepared");
  return { rig, requests };
}

function step(sequence: number, position: number): Uint8Array<ArrayBuffer> {
  const run = {
    session: 1, generation: 0, firstPosition: position, count: 1, output: OutputKind.hidden,
    candidateCount: 0,
  };
  const header = {
    type: FrameType.step, sequence, binding: 1, stage: 1, rows: 1, columns: kHidden,
    dtype: DType.f32, queueUs: 0, computeUs: 0,
  };
  return encodeFrame(header, [run], new Uint8Array(4 * kHidden));
}

function given(asked: ExpertFrame, change: Partial<ExpertFrame>): Uint8Array {
  return encodeShardMessage(0, [{ ...asked, type: ExpertFrameType.given, ...change }]);
}

const kSums = Float32Array.of(5, 6, 7, 8);

async function asked(rig: WorkerRig, count: number): Promise<ExpertFrame> {
  await until(() => rig.shards.length >= count, `${count} messages`);
  expect(rig.shards[count - 1]!.peer).toBe(0);
  return rig.shards[count - 1]!.frames[0]!;
}

it("says that it can be one, and loads its layers without their experts", async () => {
  const { rig, requests } = await hubRig();
  expect(rig.all("connect")[0]).toMatchObject({ takesExperts: true, rowsToServer: true });
  const hub = hubProgram(programs[1]!);
  const engine = rig.engine as HubEngine;
  expect(rig.engines.length).toBe(1); // whole layers were not wanted
  expect(engine.programs).toEqual([hub]);
  const wanted = [model.layerProgram(1), ...blobsOf(hub)].sort();
  const fetched = requests.filter((path) => path.startsWith("/package/blobs/"))
    .map((path) => path.slice("/package/blobs/".length));
  expect(fetched.sort()).toEqual(wanted);
  expect(rig.all("layerDownloaded")).toEqual([]); // the device has only a part of it
  rig.tell({ case: "retire", value: { bindings: [], keep: [] } });
  await until(() => engine.loaded.size === 0, "room again");
});

it("holds the same layer whole in another engine, and frees both", async () => {
  const { rig } = await hubRig();
  const [hub] = rig.engines;
  rig.tell({ case: "measureSpeed", value: { ranges: [{ first: 1, end: 2 }], runs: 1 } });
  await rig.next("failed"); // this one measures nothing
  expect(rig.engines.length).toBe(2);
  expect(rig.engine.reads).toEqual(blobsOf(programs[1]!));
  await until(() => rig.engine.loaded.size === 0, "what was measured to go");
  expect([...hub!.loaded]).toEqual([1]);
  await rig.worker.close();
  expect(rig.engines.map(({ isDisposed }) => isDisposed)).toEqual([true, true]);
});

it("gives rows to the server, and answers a step with what comes", async () => {
  const { rig } = await hubRig();
  rig.worker.onMessage(step(1, 0));
  const first = await asked(rig, 1);
  expect(first).toMatchObject({
    type: ExpertFrameType.rows, layer: 1, expert: 2, tokens: 1, hidden: kHidden,
    rowType: RowType.f32,
  });
  expect(floatRowsOf(first)).toEqual(Float32Array.of(0, 1, 2, 3, 4, 5, 6, 7));
  await new Promise((later) => setTimeout(later, 30));
  rig.worker.onMessage(given(first, { rows: new Uint8Array(kSums.buffer) }));
  const { header, payload } = await rig.nextResult();
  expect(new Float32Array(payload.slice().buffer)).toEqual(kSums);
  expect(header.queueUs).toBeGreaterThan(25_000); // what it waited is not computing
  expect(header.computeUs).toBeLessThan(25_000);
  rig.worker.onMessage(step(2, 1));
  const second = await asked(rig, 2);
  expect(second.sequence).toBeGreaterThan(first.sequence);
  const none = { failed: true, tokens: 0, hidden: 0 };
  const body = new TextEncoder().encode("Nobody holds expert 3.");
  rig.worker.onMessage(given(second, { ...none, body }));
  expect(await rig.next("stepFailed")).toMatchObject({
    sequence: 2, code: "unavailable", message: "Nobody holds expert 3.",
  });
  expect(rig.endings).toEqual([]);
});

it("ends with a step that waits", async () => {
  const { rig } = await hubRig();
  rig.worker.onMessage(step(1, 0));
  await asked(rig, 1);
  await rig.worker.close();
  expect(rig.engine.isDisposed).toBe(true);
});
