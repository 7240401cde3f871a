// What is larger than the device binds is split: the same results as whole, with a limit that is
// far smaller than any device's.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import type { Gpu } from "./gpu/open.ts";
import { Binding } from "./kernels/common/bindings.ts";
import { rowBytes } from "./program/validateWeight.ts";
import type { Run } from "./stage/stageEngine.ts";
import { weightOf } from "./test/caseInputs.ts";
import type { ConformanceCase } from "./test/caseInputs.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { runCase } from "./test/runCase.ts";
import { ToyModel } from "./test/toyModel.ts";
import type { ToyLayer } from "./test/toyModel.ts";
import { kDefaultOptions, WebGpuEngine } from "./webgpuEngine.ts";

const gpu = await sharedNodeGpu();
const kCases = ["f32", "q4", "biased_swiglu_oai"];
const casesPath = "../../../../tests/conformance/moe_experts.json";
const experts = JSON.parse(
  readFileSync(join(import.meta.dirname, casesPath), "utf8"),
) as ConformanceCase[];

function limited(bindingBytes: number): Gpu {
  return { ...gpu!, limits: { ...gpu!.limits, bindingBytes } };
}

// Sizes of the matrices that bind groups name from now on.
function watchMatrices(device: GPUDevice): { sizes: Set<number>; stop: () => void } {
  const sizes = new Set<number>();
  const original = device.createBindGroup.bind(device);
  device.createBindGroup = (descriptor) => {
    for (const { binding, resource } of descriptor.entries) {
      if (binding === Binding.data) sizes.add((resource as GPUBufferBinding).buffer.size);
    }
    return original(descriptor);
  };
  return { sizes, stop: () => Reflect.deleteProperty(device, "createBindGroup") };
}

function expectClose(got: readonly number[], c: ConformanceCase): void {
  expect(got.length).toBe(c.expected.length);
  for (const [i, value] of got.entries()) {
    const wanted = c.expected[i]!;
    const error = Math.abs(value - wanted);
    expect(error, `element ${i}`).toBeLessThanOrEqual(c.tolerance * Math.max(1, Math.abs(wanted)));
  }
}

// Bytes of 8 rows of a case's gate and up rows as the engine holds them.
function groupBytes(c: ConformanceCase): number {
  const { dtype, shape } = weightOf(c.inputs["gate_up"]!);
  return 8 * rowBytes(dtype, Math.ceil(shape[2]! / 32) * 32).data;
}

describe.skipIf(!gpu)("experts that exceed a binding", { timeout: 600_000 }, () => {
  for (const c of experts.filter(({ name }) => kCases.includes(name))) {
    it(`${c.name}: two a block, one a block, each in slabs`, async () => {
      const ofExpert = 2 * Math.ceil(c.inputs["gate_up"]!.shape[1]! / 16);
      for (const groups of [2 * ofExpert, ofExpert, 2]) {
        const limit = groups * groupBytes(c);
        const watched = watchMatrices(gpu!.device);
        const got = await runCase(limited(limit), c, 1000);
        watched.stop();
        expect(Math.max(...watched.sizes)).toBe(limit);
        expectClose(got, c);
        if (groups > 2) continue;
        expect(await runCase(limited(limit), c, 1), "row by row").toEqual(got);
      }
    });
  }

  it("says what does not even fit in slabs", async () => {
    await expect(runCase(limited(64), experts[0]!, 1)).rejects.toThrow("binds at most 64");
  });
});

// An embedding and a layer with a paired product (gate, up) and a plain one.
const kHidden = 64;
const kWidth = 512;
const kTokens = 400;
const view = (buffer: number, columns: number) => ({ buffer, firstColumn: 0, columns });
const random = (shape: number[], seed: number) =>
  weightOf({ kind: "f32", shape, seed, amplitude: 0.1 });
const product = (from: number, to: number, weight: number, columns: number, rows: number) => {
  const matrix = { weight, firstRow: 0, rows };
  const value = { in: view(from, columns), out: view(to, rows), weight: matrix };
  return { kind: { case: "matmul" as const, value } };
};
const gated = { gate: view(1, kWidth), up: view(2, kWidth), out: view(3, kWidth), kind: 0 };
const sum = { a: view(0, kHidden), b: view(4, kHidden), out: view(0, kHidden) };
const wide: ToyLayer = {
  buffers: [kHidden, kWidth, kWidth, kWidth, kHidden],
  weights: [
    random([kWidth, kHidden], 1),
    random([kWidth, kHidden], 2),
    random([kHidden, kWidth], 3),
  ],
  ops: [
    product(0, 1, 0, kHidden, kWidth),
    product(0, 2, 1, kHidden, kWidth),
    { kind: { case: "gatedActivation", value: gated } },
    product(3, 4, 2, kWidth, kHidden),
    { kind: { case: "add", value: sum } },
  ],
  input: 0,
  output: 0,
};
const embedding: ToyLayer = {
  buffers: [kHidden],
  weights: [random([kTokens, kHidden], 4)],
  ops: [{ kind: { case: "embed", value: { weight: 0, out: view(0, kHidden), scale: 1 } } }],
  input: null,
  output: 0,
};

describe.skipIf(!gpu)("matrices that exceed a binding", { timeout: 600_000 }, () => {
  it("gives the same bits in slabs", async () => {
    const model = new ToyModel(new Map([[0, embedding], [1, wide]]));
    const layers = { first: 0, end: 2 };
    const limit = 32768; // 16 groups of gate and up, two of down
    const watched = watchMatrices(gpu!.device);
    const engines: WebGpuEngine[] = [];
    for (const bytes of [gpu!.limits.bindingBytes, limit]) {
      watched.sizes.clear();
      const engine = new WebGpuEngine(limited(bytes), kDefaultOptions);
      await engine.load(layers, model);
      engines.push(engine);
    }
    watched.stop();
    expect(Math.max(...watched.sizes)).toBe(limit);
    for (const [session, count] of [1, 3, 12].entries()) {
      const output = { kind: "hidden" } as const;
      const run: Run = { session, generation: 0, firstPosition: 0, count, output };
      const tokenIds = Int32Array.from({ length: count }, (_, i) => (i * 97 + 321) % kTokens);
      const input = { layers, runs: [run], tokenIds, hidden: new Float32Array(0) };
      const [whole, split] = [await engines[0]!.step(input), await engines[1]!.step(input)];
      expect(split.hidden).toEqual(whole.hidden);
      expect(whole.hidden.some((value) => value !== 0)).toBe(true);
    }
    for (const engine of engines) engine.freeBuffers();
  });
});
