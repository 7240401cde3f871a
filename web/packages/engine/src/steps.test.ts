// Steps that stop for an exchange, and rows that come and go as the wire has them, on whatever
// WebGPU device Node has.
import { describe, expect, it } from "vitest";

import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16 } from "./base/half.ts";
import { kMaxRows, kUsualRows } from "./dispatch/layout.ts";
import { DType } from "./program/ir.ts";
import type { ExchangeRequest, Run, StepInput, StepOutput } from "./stage/stageEngine.ts";
import { weightOf } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { ToyModel } from "./test/toyModel.ts";
import type { ToyLayer } from "./test/toyModel.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";
import type { WebGpuOptions } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const kColumns = 33; // rows do not end at whole words
const kFactor = 0.75;
const only = { first: 1, end: 2 };

type Ops = ToyLayer["ops"];
const view = (buffer: number) => ({ buffer, firstColumn: 0, columns: kColumns });

// x + f(W x), where f is what `between` does from buffer 1 to buffer 2.
function toy(between: Ops): ToyModel {
  const weight = weightOf({ kind: "f32", shape: [kColumns, kColumns], seed: 5 });
  const product = { in: view(0), out: view(1), weight: { weight: 0, firstRow: 0, rows: kColumns } };
  const sum = { a: view(0), b: view(2), out: view(0) };
  const ops: Ops = [
    { kind: { case: "matmul", value: product } },
    ...between,
    { kind: { case: "add", value: sum } },
  ];
  const buffers = [kColumns, kColumns, kColumns];
  return new ToyModel(new Map([[1, { buffers, weights: [weight], ops, input: 0, output: 0 }]]));
}

const scale = { in: view(1), out: view(2), factor: kFactor };
const scaled = toy([{ kind: { case: "scale", value: scale } }]);
const exchange = { out: view(1), in: view(2), id: 7 };
const exchanged = toy([{ kind: { case: "exchange", value: exchange } }]);

async function engineOf(model: ToyModel, options: Partial<WebGpuOptions> = {}) {
  const engine = new WebGpuEngine(gpu!, { ...kDefaultOptions, ...options });
  await engine.load(only, model);
  return engine;
}

function rowsOf(count: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count * kColumns }, (_, i) => Math.sin(i * 0.7) * 3);
}

function input(rows: number, more: Partial<StepInput> = {}): StepInput {
  const output = { kind: "hidden" } as const;
  const run: Run = { session: 1, generation: 0, firstPosition: 0, count: rows, output };
  return { layers: only, runs: [run], tokenIds: new Int32Array(0), hidden: rowsOf(rows), ...more };
}

describe.skipIf(!gpu)("exchange", { timeout: 600_000 }, () => {
  it("gives what an operation in its place gives", async () => {
    const split = await engineOf(exchanged);
    const whole = await engineOf(scaled);
    const rows = kMaxRows + 22; // two passes
    const requests: ExchangeRequest[] = [];
    const exchange = (request: ExchangeRequest): Promise<Float32Array> => {
      requests.push(request);
      return Promise.resolve(request.out.map((value) => value * kFactor));
    };
    const got = await split.step(input(rows, { exchange }));
    const expected = await whole.step(input(rows));
    expect(got.hidden).toEqual(expected.hidden);
    expect(requests.map(({ layer, id, firstRow, rowCount }) => [layer, id, firstRow, rowCount]))
      .toEqual([
        [1, 7, 0, kMaxRows],
        [1, 7, kMaxRows, 22],
      ]);
    split.freeBuffers();
    whole.freeBuffers();
  });

  it("changes nothing when it fails", async () => {
    const engine = await engineOf(exchanged);
    const scratch = async (exchange?: StepInput["exchange"]): Promise<StepOutput> =>
      await engine.step(input(3, exchange ? { exchange } : {}));
    await expect(scratch()).rejects.toThrow("came without 'exchange'");
    await expect(scratch(() => Promise.reject(new Error("nobody answers")))).rejects.toThrow(
      "Exchange 7 of layer 1 failed: nobody answers",
    );
    await expect(scratch(() => Promise.resolve(new Float32Array(4)))).rejects.toThrow(
      "brought 4 values; expected 3 rows of 33",
    );
    const bad = new Float32Array(3 * kColumns).fill(NaN, 0, 2);
    await expect(scratch(() => Promise.resolve(bad))).rejects.toThrow(
      "brought 2 values that are not finite",
    );
    expect(engine.heldSession(1, only).positions).toBe(0);
    const { scratchBytes } = engine.memory();
    await scratch(({ out }) => Promise.resolve(out));
    expect(engine.heldSession(1, only).positions).toBe(3);
    expect(engine.memory().scratchBytes).toBe(scratchBytes); // failures left no buffers behind
    engine.freeBuffers();
  });

  it("is refused in the output head", async () => {
    const value = { out: view(0), in: view(0), id: 1 };
    const head = new ToyModel(
      new Map([
        [
          1,
          {
            buffers: [kColumns, kColumns],
            weights: [],
            ops: [
              { kind: { case: "exchange", value } },
              { kind: { case: "scale", value: { in: view(0), out: view(1), factor: 1 } } },
            ],
            input: 0,
            output: 1,
          },
        ],
      ]),
    );
    await expect(engineOf(head)).rejects.toThrow("exchange in the output head");
  });
});

describe.skipIf(!gpu)("steps of different sessions", { timeout: 600_000 }, () => {
  const step = (engine: WebGpuEngine, session: number, rows: number): Promise<StepOutput> => {
    const { runs, ...rest } = input(rows);
    return engine.step({ ...rest, runs: [{ ...runs[0]!, session }] });
  };

  it("are encoded while others are computed", async () => {
    const engine = await engineOf(scaled);
    const alone = [await step(engine, 1, 2), await step(engine, 2, kUsualRows + 3)];
    const { encoder } = engine.machine;
    const before = encoder.dispatchCount;
    await step(engine, 3, 2);
    const each = encoder.dispatchCount - before;
    const first = step(engine, 4, 2);
    const second = step(engine, 5, 2);
    expect((await first).hidden).toEqual(alone[0]!.hidden);
    expect(encoder.dispatchCount - before).toBe(3 * each);
    expect((await second).hidden).toEqual(alone[0]!.hidden);
    engine.freeBuffers();
  });

  it("may want more room while others are computed", async () => {
    const engine = await engineOf(scaled);
    const [short, long] = await Promise.all([step(engine, 1, 2), step(engine, 2, kUsualRows + 3)]);
    expect(short.hidden).toEqual((await step(engine, 3, 2)).hidden);
    expect(long.hidden).toEqual((await step(engine, 4, kUsualRows + 3)).hidden);
    engine.freeBuffers();
  });
});

describe.skipIf(!gpu)("steps of one session", { timeout: 600_000 }, () => {
  const at = (first: number, rows: number, value: number, session = 1): StepInput => {
    const { runs, ...rest } = input(rows);
    const hidden = new Float32Array(rows * kColumns).fill(value);
    return { ...rest, runs: [{ ...runs[0]!, session, firstPosition: first }], hidden };
  };

  it("follow each other while the first is computed", async () => {
    const engine = await engineOf(scaled);
    const steps = [engine.step(at(0, 3, 1)), engine.step(at(3, 2, 2)), engine.step(at(5, 1, 3))];
    const got = await Promise.all(steps);
    expect(engine.heldSession(1, only).positions).toBe(6);
    for (const [i, value] of [1, 2, 3].entries()) {
      const alone = await engine.step(at(0, 1, value, 10 + i));
      expect(got[i]!.hidden.slice(0, kColumns)).toEqual(alone.hidden);
    }
    engine.freeBuffers();
  });

  it("fail with the one that they follow, and leave what was before", async () => {
    const engine = await engineOf(scaled);
    await engine.step(at(0, 2, 1));
    const results = await Promise.allSettled([
      engine.step(at(2, 3, 1)),
      engine.step(at(5, 1, 3e38)), // its product overflows
      engine.step(at(6, 1, 1)),
      engine.step(at(0, 1, 1, 2)),
    ]);
    expect(results.map(({ status }) => status)).toEqual(
      ["fulfilled", "rejected", "rejected", "fulfilled"]);
    const reasons = results.map((it) => (it.status === "rejected" ? String(it.reason) : ""));
    expect(reasons[1]).toMatch(/not finite/);
    expect(reasons[2]).toBe(reasons[1]);
    expect([1, 2].map((session) => engine.heldSession(session, only).positions)).toEqual([5, 1]);
    await engine.step(at(5, 1, 1));
    engine.freeBuffers();
  });
});

describe.skipIf(!gpu)("a form that is not run everywhere", () => {
  it("is refused by name", async () => {
    const weight = {
      dtype: DType.q4s,
      shape: [2 * kColumns, kColumns],
      data: new Uint8Array(2 * kColumns * 32),
      scale: new Uint8Array(2 * kColumns * 12),
      zero: new Uint8Array(0),
    };
    const value = { weight: 0, out: view(0), scale: 1 };
    const table = {
      buffers: [kColumns],
      weights: [weight],
      ops: [{ kind: { case: "embed" as const, value } }],
      input: null,
      output: 0,
    };
    const engine = new WebGpuEngine(gpu!, kDefaultOptions);
    const model = new ToyModel(new Map([[0, table]]));
    await expect(engine.load({ first: 0, end: 1 }, model)).rejects.toThrow(
      "weight 'w0' in superblocks, and in q4s no rows are looked up",
    );
  });
});

describe.skipIf(!gpu)("long steps", { timeout: 600_000 }, () => {
  const held = (engine: WebGpuEngine): number => {
    const { weightBytes, kvBytes, scratchBytes } = engine.memory();
    return weightBytes + kvBytes + scratchBytes;
  };

  it("take more memory, or more passes where there is none", async () => {
    const free = await engineOf(scaled);
    await free.step(input(3));
    const before = held(free);
    free.releaseAll();
    const expected = await free.step(input(kUsualRows + 9));
    const after = held(free);
    expect(after).toBeGreaterThan(before);
    const tight = await engineOf(scaled, { memoryLimitBytes: Math.floor((before + after) / 2) });
    for (const rows of [kUsualRows + 9, 3, kUsualRows + 9]) {
      const got = await tight.step(input(rows));
      expect(got.hidden).toEqual(expected.hidden.slice(0, got.hidden.length));
      tight.releaseAll();
    }
    expect(held(tight)).toBeLessThan(after);
    for (const engine of [free, tight]) engine.freeBuffers();
  });
});

// Each type with the conversions of half.ts, which the pages used before: the same bits.
const kTypes = [
  ["f16", f32ToF16, f16ToF32],
  ["bf16", f32ToBf16, bf16ToF32],
] as const;

describe.skipIf(!gpu)("packed rows", { timeout: 600_000 }, () => {
  for (const [residualDtype, narrow, widen] of kTypes) {
    it(`${residualDtype}: the same bits as converted by the caller`, async () => {
      const engine = await engineOf(scaled, { residualDtype });
      expect(engine.packs).toBe(residualDtype);
      for (const rows of [1, 3, kUsualRows + 5]) {
        const halves = new Uint16Array(rows * kColumns);
        narrow(rowsOf(rows), halves);
        halves.set(residualDtype === "f16" ? [0, 0x8000, 1, 0x8001, 0x3ff] : [0, 0x8000]);
        const hidden = new Float32Array(halves.length);
        widen(halves, hidden);
        const before = await engine.step(input(rows, { hidden }));
        engine.releaseAll();
        const packed = new Uint8Array(halves.buffer);
        const after = await engine.step(
          input(rows, { hidden: new Float32Array(0), packed, packOutput: true }),
        );
        engine.releaseAll();
        const bits = new Uint16Array(before.hidden.length);
        narrow(before.hidden, bits);
        expect(after.hidden.length).toBe(0);
        expect(Buffer.from(after.packed!).equals(Buffer.from(bits.buffer))).toBe(true);
        expect(bits.some((half) => half !== 0)).toBe(true);
      }
      engine.freeBuffers();
    });
  }

  it("packs values of every kind exactly", async () => {
    const zero = [{ kind: { case: "scale", value: { ...scale, factor: 0 } } }] as Ops;
    const engine = await engineOf(toy(zero), { residualDtype: "f16" });
    const rows = Math.ceil(0x7c00 / kColumns);
    const every = Uint16Array.from({ length: rows * kColumns }, (_, i) => {
      const magnitude = i % 0x7c00; // every finite one, with either sign in turn
      return magnitude | (i % 3 === 0 ? 0x8000 : 0);
    });
    const packed = new Uint8Array(every.buffer);
    const step = input(rows, { hidden: new Float32Array(0), packed, packOutput: true });
    const got = new Uint16Array((await engine.step(step)).packed!.slice().buffer);
    // -0 + 0 is 0.
    const expected = every.map((half) => (half === 0x8000 ? 0 : half));
    const apart = got.findIndex((half, i) => half !== expected[i]);
    expect(apart, `half ${expected[apart]} became ${got[apart]}`).toBe(-1);
    engine.freeBuffers();
  });

  it("refuses what is not finite, and what does not fit", async () => {
    const engine = await engineOf(scaled, { residualDtype: "f16" });
    const hidden = new Float32Array(0);
    const halves = new Uint16Array(2 * kColumns).fill(0x7c00, 40, 42);
    const packed = new Uint8Array(halves.buffer);
    await expect(engine.step(input(2, { hidden, packed }))).rejects.toThrow(
      "handed to layer 1 hold 2 values that are not finite",
    );
    expect(engine.heldSession(1, only).positions).toBe(0);
    await expect(engine.step(input(3, { hidden, packed }))).rejects.toThrow("take 198 bytes");
    engine.freeBuffers();
    const exact = await engineOf(scaled);
    expect(exact.packs).toBe(null);
    await expect(exact.step(input(2, { hidden, packed }))).rejects.toThrow("in f32");
    exact.freeBuffers();
  });
});
