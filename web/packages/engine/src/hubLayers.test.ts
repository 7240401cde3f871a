// A layer with experts, or neuron groups, run whole and as a hub, on whatever WebGPU device Node
// has. The hub's rows are computed by shards of the same layer in a second engine.
import { describe, expect, it } from "vitest";

import { decodeProgram } from "./program/decode.ts";
import { hasExperts, hubProgram, weightBytesOf } from "./program/hubProgram.ts";
import { RouteKind } from "./program/ir.ts";
import type { Program } from "./program/ir.ts";
import { blobsOf, expertProgram } from "./program/shards.ts";
import { validate } from "./program/validate.ts";
import type { ExchangeRequest, Run, StepInput } from "./stage/stageEngine.ts";
import { kColumns, kExperts, mixtureModel, view } from "./test/mixtureModel.ts";
import type { Choice } from "./test/mixtureModel.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import type { ToyModel } from "./test/toyModel.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const kLayer = 1;
const kShardLayer = 9;
const only = { first: kLayer, end: kLayer + 1 };
const none = new Int32Array(0);

function mixture(choice: Choice): { model: ToyModel; program: Program } {
  const model = mixtureModel(choice, [kLayer]);
  return { model, program: decodeProgram(model.programBytes(kLayer)) };
}

const routed = mixture({ kind: RouteKind.softmaxTopKNormalized, topK: 2 });
const grid = { gridStep: 2 ** -10, gridLimit: 2 ** 20 };
const grouped = mixture({ kind: RouteKind.all, topK: kExperts, ...grid });

function input(hidden: Float32Array, session: number, more: Partial<StepInput> = {}): StepInput {
  const count = hidden.length / kColumns;
  const output = { kind: "hidden" } as const;
  const run: Run = { session, generation: 0, firstPosition: 0, count, output };
  return { layers: only, runs: [run], tokenIds: none, hidden, ...more };
}

// The unweighted rows of every expert for each row, [rows, experts, columns].
async function shardRows(engine: WebGpuEngine, rows: readonly Float32Array[]) {
  const columns = kColumns + 2;
  const all = new Float32Array(rows.length * kExperts * columns);
  for (let slot = 0; slot < rows.length * kExperts; ++slot) {
    all.set(rows[Math.floor(slot / kExperts)]!, slot * columns);
    all.set([slot % kExperts, 1], slot * columns + kColumns);
  }
  const output = { kind: "hidden" } as const;
  const count = rows.length * kExperts;
  const run = { session: 1, generation: 0, firstPosition: 0, count, output };
  const layers = { first: kShardLayer, end: kShardLayer + 1 };
  const { hidden } = await engine.step({ layers, runs: [run], tokenIds: none, hidden: all });
  engine.release(1);
  return hidden;
}

// What a server does: asks for the slots' rows, and adds them up by their weights.
async function answered(
  engine: WebGpuEngine,
  topK: number, // 0: all groups with weight 1
  { out, rowCount, inColumns }: ExchangeRequest,
): Promise<Float32Array> {
  const columns = out.length / rowCount;
  expect([columns, inColumns]).toEqual([kColumns + 2 * topK, kColumns]);
  const rowOf = (row: number) => out.subarray(row * columns, row * columns + kColumns);
  const rows = Array.from({ length: rowCount }, (_, row) => rowOf(row));
  const each = await shardRows(engine, rows);
  const sums = new Float32Array(rowCount * kColumns);
  for (let row = 0; row < rowCount; ++row) {
    const route = out.subarray(row * columns + kColumns, (row + 1) * columns);
    for (let slot = 0; slot < (topK === 0 ? kExperts : topK); ++slot) {
      const [expert, weight] = topK === 0 ? [slot, 1] : [route[slot]!, route[topK + slot]!];
      for (let i = 0; i < kColumns; ++i) {
        sums[row * kColumns + i]! += weight * each[(row * kExperts + expert) * kColumns + i]!;
      }
    }
  }
  return sums;
}

describe("the program of a hub", () => {
  const kinds = ({ ops }: Program): string[] => ops.map(({ kind }) => kind);

  it("gives a row and its route away, and names no weights of experts", () => {
    const hub = hubProgram(routed.program);
    validate(hub);
    expect(kinds(hub)).toEqual(
      ["rmsNorm", "matmul", "moeRoute", "scale", "scale", "exchange", "add"]);
    expect(hub.weights.map(({ name }) => name)).toEqual(["w0", "w3"]);
    expect(weightBytesOf(hub)).toBe(4 * (kColumns + kExperts * kColumns));
    const experts = new Set(blobsOf(expertProgram(routed.program, [0, 1, 2, 3, 4])));
    expect(blobsOf(hub).filter((digest) => experts.has(digest))).toEqual([]);
    expect([...blobsOf(hub), ...experts].sort()).toEqual(blobsOf(routed.program).sort());
    expect([hasExperts(routed.program), hasExperts(hub)]).toEqual([true, false]);
  });

  it("of neuron groups gives the row alone away", () => {
    const hub = hubProgram(grouped.program);
    validate(hub);
    expect(kinds(hub)).toEqual(["rmsNorm", "matmul", "exchange", "add"]);
    expect(hub.ops[2]).toMatchObject({ out: view(1, kColumns), in: view(4, kColumns) });
  });

  it("is the layer's where it has no experts, and is made once", () => {
    const hub = hubProgram(routed.program);
    expect(hubProgram(hub)).toBe(hub);
  });
});

describe.skipIf(!gpu)("a hub's layer", { timeout: 600_000 }, () => {
  it.each([
    ["with experts", routed, 2],
    ["in neuron groups", grouped, 0],
  ] as const)("%s gives what the whole layer gives", async (_, { model, program }, topK) => {
    const [whole, hub, shards] = [0, 1, 2].map(() => new WebGpuEngine(gpu!, kDefaultOptions)) as
      [WebGpuEngine, WebGpuEngine, WebGpuEngine];
    await whole.load(only, model);
    await hub.loadProgram(hubProgram(program), model);
    const shard = expertProgram(program, [0, 1, 2, 3, 4]);
    await shards.loadProgram({ ...shard, layerIndex: kShardLayer }, model);
    expect(hub.memory().weightBytes).toBeLessThan(whole.memory().weightBytes / 2);
    const exchange = (request: ExchangeRequest): Promise<Float32Array> =>
      answered(shards, topK, request);
    for (const [session, rows] of [1, 7].entries()) {
      const hidden = Float32Array.from({ length: rows * kColumns }, (__, i) => Math.sin(i * 0.7));
      const expected = (await whole.step(input(hidden, session))).hidden;
      const got = (await hub.step(input(hidden, session, { exchange }))).hidden;
      const apart = got.map((value, i) => Math.abs(value - expected[i]!));
      expect(Math.max(...apart)).toBeLessThan(1e-4);
      expect(expected.some((value, i) => Math.abs(value - hidden[i]!) > 0.01)).toBe(true);
    }
    for (const engine of [whole, hub, shards]) engine.freeBuffers();
  });
});
