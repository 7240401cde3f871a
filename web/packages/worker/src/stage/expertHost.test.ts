// The experts of real checkpoints on the GPU (as in wholeModels.test.ts): rows against sums in
// double precision over the package's own weights, the frames of the golden file, what is refused.
// Needs build/release/weft (or WEFT), which converts the checkpoints.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { f16ToF32, f32ToF16 } from "@weft/engine";
import { decodeProgram } from "@weft/engine/program/decode.ts";
import { DType } from "@weft/engine/program/ir.ts";
import type { MoeExperts, Program } from "@weft/engine/program/ir.ts";
import { sharedNodeGpu } from "@weft/engine/test/nodeGpu.ts";
import { PackageFolder } from "@weft/engine/test/packageFolder.ts";
import { readValues } from "@weft/engine/weights/vectors.ts";
import { kDefaultOptions, WebGpuEngine } from "@weft/engine/webgpuEngine.ts";
import { ExpertFrameType, RowType, decodeShardMessage, readIntegerRow } from "@weft/wire";
import type { ExpertFrame } from "@weft/wire";

import { ExpertBlobs } from "../download/expertBlobs.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { ExpertHost } from "./expertHost.ts";

const root = join(import.meta.dirname, "../../../../..");
const weft = process.env["WEFT"] ?? join(root, "build/release/weft");
const data = process.env["WEFT_DATA"] ?? join(root, "build/test-data");
const gpu = existsSync(weft) ? await sharedNodeGpu() : null;
const folder = mkdtempSync(join(tmpdir(), "weft-experts-"));
afterAll(() => rmSync(folder, { recursive: true }));

function packageOf(name: string, quant: string): PackageFolder {
  const own = join(root, "models", name);
  const from = existsSync(own) ? own : join(data, "checkpoints", name);
  const out = join(folder, `${name}-${quant}`);
  const args = ["convert", from, out, "--quant", quant, "--no-tokenizer"];
  if (!existsSync(out)) execFileSync(weft, args, { stdio: ["ignore", "ignore", "pipe"] });
  return new PackageFolder(out);
}

interface Rig {
  readonly host: ExpertHost;
  readonly engine: WebGpuEngine;
  readonly layer: number; // the first with experts
  readonly program: Program; // of that layer
  readonly op: MoeExperts;
  readonly source: PackageFolder;
}

async function rigOf(name: string, memoryLimitBytes = 0, quant = "f32"): Promise<Rig> {
  const source = packageOf(name, quant);
  // What a host uses of a source beyond an engine's.
  const dropCopies = (): Promise<void> => Promise.resolve();
  const blobs = new ExpertBlobs(Object.assign(source, { dropCopies }) as unknown as PackageSource);
  // f16 between layers: rows of experts stay in f32 all the same.
  const options = { ...kDefaultOptions, residualDtype: "f16", kvDtype: "f32", memoryLimitBytes };
  const engine = new WebGpuEngine(gpu!, options as typeof kDefaultOptions);
  const host = new ExpertHost(source.range.end, blobs, () => Promise.resolve(engine));
  for (let layer = 0; layer < source.range.end; ++layer) {
    const program = decodeProgram(await source.readBlob(source.layerProgram(layer)));
    const op = program.ops.find((each): each is MoeExperts => each.kind === "moeExperts");
    if (op) return { host, engine, layer, program, op, source };
  }
  throw new Error(`${name} has no experts`);
}

const hold = async (host: ExpertHost, layer: number, experts: readonly number[]): Promise<void> => {
  await host.install([{ layer, experts }], () => undefined);
};

function dispatch(layer: number, expert: number, columns: number, tokens = 1, at = 0): ExpertFrame {
  const values = Float32Array.from({ length: tokens * columns }, (_, i) => Math.sin(at + i));
  return {
    type: ExpertFrameType.dispatch, sequence: 5, layer, expert, tokens, hidden: columns,
    sameRows: false, failed: false, rows: new Uint8Array(values.buffer),
    body: new Uint8Array(0), maySum: false, best: false,
    takesSteps: false, added: [], rowType: RowType.f32,
  };
}

function halvesOf(values: Float32Array): Uint16Array {
  const halves = new Uint16Array(values.length);
  f32ToF16(values, halves);
  return halves;
}

// A row as whole numbers, by the rule of src/tensor/integer_row.h.
function integersOf(row: Float32Array): Uint8Array {
  const superblocks = Math.ceil(row.length / 256);
  const view = new DataView(new ArrayBuffer(superblocks + 2 * row.length));
  for (const [i, value] of row.entries()) {
    const block = Math.floor(i / 256);
    const own = row.subarray(256 * block, 256 * (block + 1));
    const largest = Math.max(...own.map(Math.abs));
    const e = Math.max(40, 127 + Math.floor(Math.log2(largest)));
    view.setUint8(block, e);
    const x = value * 2 ** (141 - e) * (32639 / 32768);
    const even = Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x);
    view.setInt16(superblocks + 2 * i, even, true);
  }
  return new Uint8Array(view.buffer);
}

const floatsOf = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.slice().buffer);
const textOf = ({ body }: ExpertFrame): string => new TextDecoder().decode(body);

// silu(g) u, or gpt-oss' (u + 1) g sigmoid(1.702 g) with g <= 7 and |u| <= 7.
function activated(kind: number, gate: number, up: number): number {
  if (kind === 0) return (gate / (1 + Math.exp(-gate))) * up;
  const g = Math.min(gate, 7);
  const u = Math.min(Math.max(up, -7), 7);
  return ((u + 1) * g) / (1 + Math.exp(-1.702 * g));
}

// The rows of an expert by its definition, in double precision.
async function expectedOf({ program, op, source }: Rig, frame: ExpertFrame): Promise<number[]> {
  const read = (id: number): Promise<Float32Array> =>
    readValues(program.weights[id]!, source);
  const [gateUp, down] = [await read(op.gateUp), await read(op.down)];
  const gateUpBias = op.gateUpBias === null ? null : await read(op.gateUpBias);
  const downBias = op.downBias === null ? null : await read(op.downBias);
  const [, columns, width] = program.weights[op.down]!.shape as [number, number, number];
  const dot = (matrix: Float32Array, row: number, x: readonly number[]): number =>
    x.reduce((sum, value, i) => sum + value * matrix[row * x.length + i]!, 0);
  const all: number[] = [];
  const { expert } = frame;
  for (let token = 0; token < frame.tokens; ++token) {
    const x = [...floatsOf(frame.rows).subarray(token * columns, (token + 1) * columns)];
    const hidden = Array.from({ length: width }, (_, i) => {
      const [g, u] = [2 * expert * width + i, 2 * expert * width + width + i];
      const gate = dot(gateUp, g, x) + (gateUpBias?.[g] ?? 0);
      return activated(op.activation, gate, dot(gateUp, u, x) + (gateUpBias?.[u] ?? 0));
    });
    for (let i = 0; i < columns; ++i) {
      const row = expert * columns + i;
      all.push(dot(down, row, hidden) + (downBias?.[row] ?? 0));
    }
  }
  return all;
}

function expectClose(actual: Float32Array, expected: readonly number[], limit: number): void {
  expect(actual.length).toBe(expected.length);
  let worst = 0;
  for (const [i, value] of expected.entries()) {
    worst = Math.max(worst, Math.abs(actual[i]! - value));
  }
  expect(worst).toBeLessThan(limit);
}

const kLimits = { timeout: 300_000 };

describe.skipIf(!gpu)("rows of a tab's experts (needs build/release/weft)", kLimits, () => {
  it.each(["weft-tiny-moe", "qwen3-moe", "mixtral", "gpt-oss"])(
    "%s: rows of several experts and tokens are those of their definition",
    async (name) => {
      const rig = await rigOf(name);
      const { host, engine, layer, op } = rig;
      const last = op.experts - 1;
      await hold(host, layer, [1, last]);
      const { columns } = op.in;
      const asked = [
        dispatch(layer, last, columns, 2),
        dispatch(layer, 1, columns, 3, 1),
        dispatch(layer, last, columns, 1, 2),
      ];
      const { dispatchCount } = engine.machine.encoder;
      const { results, rows, error } = await host.run(asked);
      expect(error).toBe(null);
      expect(rows).toBe(6);
      // One step for all of them: gate and up, down, the copy of the rows, their check.
      expect(engine.machine.encoder.dispatchCount - dispatchCount).toBe(4);
      for (const [i, result] of results.entries()) {
        const { sequence, expert, tokens, hidden } = asked[i]!;
        const type = ExpertFrameType.result;
        expect(result).toMatchObject({ type, sequence, layer, expert, tokens, hidden });
        expectClose(floatsOf(result.rows), await expectedOf(rig, asked[i]!), 1e-3);
      }
      engine.freeBuffers();
    },
  );

  it("in f16 are those of the rounded row, rounded", async () => {
    const { host, engine, layer, op } = await rigOf("weft-tiny-moe");
    await hold(host, layer, [0, 2]);
    const { columns } = op.in;
    const exact = dispatch(layer, 2, columns, 3);
    const halves = halvesOf(floatsOf(exact.rows));
    const rounded = new Float32Array(halves.length);
    f16ToF32(halves, rounded);
    const { results } = await host.run([
      { ...exact, rows: new Uint8Array(rounded.buffer) },
      { ...exact, expert: 0 },
      { ...exact, rowType: RowType.f16, rows: new Uint8Array(halves.buffer) },
    ]);
    const expected = halvesOf(floatsOf(results[0]!.rows));
    expect(results[2]!.rowType).toBe(RowType.f16);
    expect(results[2]!.rows).toEqual(new Uint8Array(expected.buffer));
    engine.freeBuffers();
  });
});

describe.skipIf(!gpu)("experts of a tab (needs build/release/weft)", kLimits, () => {
  // A GPU whose multiplications and additions are rounded apart makes other whole numbers of some
  // values next to the middle between two.
  it("of rows as whole numbers are those of the rows that are read", async () => {
    const { host, engine, layer, op, program } = await rigOf("weft-tiny-moe", 0, "q4s");
    expect(program.weights[op.gateUp]!.dtype).toBe(DType.q4s);
    const { columns } = op.in;
    await hold(host, layer, [0, 2]);
    const f32 = [0, 2].map((expert, i) => dispatch(layer, expert, columns, 2, 100 * i));
    const read = f32.map((frame) => ({ ...frame, rows: new Uint8Array(frame.rows.length) }));
    const whole = f32.map((frame, i) => {
      const rows = [0, 1].flatMap((token) => {
        const [first, end] = [token * columns, (token + 1) * columns];
        const bytes = integersOf(floatsOf(frame.rows).subarray(first, end));
        readIntegerRow(bytes, new Float32Array(read[i]!.rows.buffer, 4 * first, columns));
        return [...bytes];
      });
      return { ...frame, rowType: RowType.integers, rows: Uint8Array.from(rows) };
    });
    const { results } = await host.run([...f32, ...read, ...whole]);
    for (const i of [0, 1]) {
      const { failed, rowType, hidden, rows } = results[4 + i]!;
      expect({ failed, rowType, hidden }).toEqual(
        { failed: false, rowType: RowType.f32, hidden: columns });
      expect(rows).toEqual(results[2 + i]!.rows);
      const near = floatsOf(results[i]!.rows);
      const largest = Math.max(...near.map(Math.abs));
      for (const [at, value] of floatsOf(rows).entries()) {
        expect(Math.abs(value - near[at]!)).toBeLessThan(1e-4 * largest);
      }
    }
    engine.freeBuffers();
  });

  it("are what was said last, and count", async () => {
    const { host, engine, layer, op } = await rigOf("weft-tiny-moe");
    const { columns } = op.in;
    await hold(host, layer, [0, 3]);
    const both = host.usedBytes;
    expect(both).toBe(engine.memory().weightBytes);
    await hold(host, layer, [3]);
    expect(host.usedBytes).toBeLessThan(both);
    expect(host.usedBytes).toBe(engine.memory().weightBytes);
    const asked = [dispatch(layer, 3, columns), dispatch(layer, 0, columns)];
    const { results } = await host.run(asked);
    expect(results.map(({ failed }) => failed)).toEqual([false, true]);
    expect(textOf(results[1]!)).toBe(`Expert 0 of layer ${layer} is not held here.`);
    await host.clear();
    expect(host.usedBytes).toBe(0);
    expect(engine.memory().weightBytes).toBe(0);
    expect((await host.run(asked)).results.every(({ failed }) => failed)).toBe(true);
    engine.freeBuffers();
  });

  it("are refused where the offer has no room for them, or they are none", async () => {
    const { host, engine, layer, op } = await rigOf("weft-tiny-moe", 70_000);
    await expect(hold(host, layer, [0])).rejects.toMatchObject({ code: "out_of_memory" });
    expect(host.usedBytes).toBe(0);
    await expect(hold(host, layer, [op.experts])).rejects.toThrow(
      `Layer ${layer} has no expert ${op.experts}, only ${op.experts}.`,
    );
    await expect(hold(host, 0, [0])).rejects.toThrow("Layer 0 has no experts.");
    engine.freeBuffers();
  });

});

describe.skipIf(!gpu)("dispatches to a tab (needs build/release/weft)", kLimits, () => {
  it("that cannot be computed get a sentence, and the rest goes on", async () => {
    const { host, engine, layer, op } = await rigOf("weft-tiny-moe");
    const { columns } = op.in;
    await hold(host, layer, [1]);
    const infinite = dispatch(layer, 1, columns);
    infinite.rows.set([0, 0, 0x80, 0x7f], 8);
    const narrow = dispatch(layer, 1, columns - 2);
    const { results } = await host.run([narrow, infinite]);
    expect(textOf(results[0]!)).toBe(
      `The rows have ${columns - 2} columns, layer ${layer} takes ${columns}.`,
    );
    expect(textOf(results[1]!)).toMatch("not finite");
    const after = await host.run([dispatch(layer, 1, columns)]);
    expect(after.results[0]!.failed).toBe(false);
    engine.freeBuffers();
  });

  // Rows of 2 or 4 columns of layers that this model does not have so.
  it("of the golden file are all refused", async () => {
    const { host, engine, layer } = await rigOf("weft-tiny-moe");
    await hold(host, layer, [0, 1, 2, 3]);
    const path = join(root, "tests/golden/expert_frames.json");
    const golden = JSON.parse(readFileSync(path, "utf8")) as {
      messages: { hex: string }[];
    };
    const dispatches = golden.messages
      .flatMap(({ hex }) => decodeShardMessage(Uint8Array.from(Buffer.from(hex, "hex"))).frames)
      .filter(({ type }) => type === ExpertFrameType.dispatch);
    expect(dispatches.length).toBeGreaterThan(2);
    const { results } = await host.run(dispatches);
    for (const [i, result] of results.entries()) {
      const { sequence, expert } = dispatches[i]!;
      expect(result).toMatchObject({ sequence, expert, failed: true });
    }
    engine.freeBuffers();
  });
});
