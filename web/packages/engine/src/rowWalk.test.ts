// One row of superblocks with a block a thread gives the bits of the kernel whose threads share a
// block in workgroup memory (superblocks.test.ts has the oracle of that one). Software adapters
// have no subgroups of 32 lanes: shuffles go through workgroup memory here.
import { describe, expect, it } from "vitest";

import { makeDispatches } from "./dispatch/dispatch.ts";
import { Buffers, Usage } from "./gpu/buffers.ts";
import { Pipelines } from "./gpu/pipelines.ts";
import { RowsAt } from "./kernels/common/numbers.ts";
import { kNone } from "./kernels/common/op.ts";
import type { Variant } from "./kernels/common/variant.ts";
import type { Arithmetic } from "./kernels/product/arithmetic.ts";
import { productParams } from "./kernels/product/ops.ts";
import { groupsOfMatVec, productKernels, rowTileOf } from "./kernels/product/variants.ts";
import type { RowTile } from "./kernels/product/variants.ts";
import { DType } from "./program/ir.ts";
import { sharedNodeGpu } from "./test/nodeGpu.ts";
import { superblockWords } from "./weights/matrix.ts";

const gpu = await sharedNodeGpu();

const kUsage = Usage.storage | Usage.copyFrom | Usage.copyTo;
const kShared: Arithmetic = { products: "int16", lanes: "shared", outputs: 16, tileRows: 4 };
const kShuffled: Arithmetic = { ...kShared, lanes: "subgroups", rowWalk: "blocks" };

// The kernel without subgroups: every thread leaves its value and takes its partner's.
function withoutShuffles({ code, ...variant }: Variant, threads: number): Variant {
  const text = code
    .replace(/^enable subgroups;\n/m, "")
    .replace(/subgroupShuffleXor\((bits_\d), /g, "partner_u32($1, ")
    .replace(/subgroupShuffleXor\((sum_\d), distance\)/g,
      "bitcast<f32>(partner_u32(bitcast<u32>($1), distance))")
    .replace(/subgroupShuffleXor\(/g, "partner_found(")
    .replace(/local_invocation_index\) t: u32\) \{/, "$&\n  own_thread = t;");
  const exchange = (name: string, type: string): string => `
var<workgroup> left_${name}: array<${type}, ${threads}>;
fn partner_${name}(value: ${type}, distance: u32) -> ${type} {
  left_${name}[own_thread] = value;
  workgroupBarrier();
  let other = left_${name}[own_thread ^ distance];
  workgroupBarrier();
  return other;
}
`;
  const exchanges = `${exchange("u32", "u32")}${exchange("found", "Found")}`;
  const more = `var<private> own_thread: u32;${exchanges}`;
  const key = `without shuffles ${variant.key}`;
  return { key, bindings: variant.bindings, code: `${text}\n${more}` };
}

let state = 12345;
function random(): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return (state ^ (state >>> 15)) >>> 0;
}

// A multiplier, 1 to 15 or its negative, as a byte.
function multiplier(): number {
  const size = 1 + ((random() >>> 8) % 15);
  return ((random() >>> 9) & 1 ? size : -size) & 255;
}

function fourMultipliers(): number {
  const [a, b, c, d] = [multiplier(), multiplier(), multiplier(), multiplier()];
  return (a | (b << 8) | (c << 16) | (d << 24)) >>> 0;
}

// Halves between 2^-7 and 2^-4.
const half = (): number => 0x2000 + ((random() >>> 7) % 0x0c00);

interface Shape {
  readonly dtype: number;
  readonly columns: number;
  readonly outputs: number;
  readonly withNorm: boolean;
  readonly paired: boolean;
}

class Product {
  readonly #buffers = new Buffers(gpu!, 0, () => 0);
  readonly #shape: Shape;
  readonly #groups: number;
  readonly #outBytes: number;
  readonly #data: GPUBuffer;
  readonly #scale: GPUBuffer;
  readonly #vectors: GPUBuffer;
  readonly #act: GPUBuffer;
  readonly #zeroBase: number;

  constructor(shape: Shape) {
    this.#shape = shape;
    const { dtype, columns, outputs, paired } = shape;
    this.#groups = outputs / 8;
    this.#outBytes = 4 * (paired ? outputs / 2 : outputs);
    const blocks = columns / 32;
    const { partWords, factorWords } = superblockWords(dtype);
    const partsOf = dtype === DType.q4s ? fourMultipliers : (): number => random() & 0x3f3f3f3f;
    this.#zeroBase = this.#groups * blocks * partWords;
    const factors = this.#groups * Math.ceil(columns / 256) * factorWords;
    const words = (count: number, of: () => number): Uint32Array<ArrayBuffer> =>
      Uint32Array.from({ length: count }, of);
    this.#data = this.#filled(words((outputs * columns) / 8, random));
    const scale = words(this.#zeroBase + factors, partsOf);
    scale.set(words(factors, () => (half() | (half() << 16)) >>> 0), this.#zeroBase);
    this.#scale = this.#filled(scale);
    const value = (): number => (random() >>> 4) / 2 ** 27 - 1;
    this.#vectors = this.#filled(Float32Array.from({ length: columns }, value));
    const act = new Float32Array(columns + this.#outBytes / 4);
    this.#act = this.#filled(act.map((_, i) => (i < columns ? value() ** 3 : 0)));
  }

  #filled(values: Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer>): GPUBuffer {
    const buffer = this.#buffers.make("test", "scratch", values.byteLength, kUsage);
    gpu!.device.queue.writeBuffer(buffer, 0, values);
    return buffer;
  }

  #params(): ReturnType<typeof productParams> {
    const { columns } = this.#shape;
    const end = this.#outBytes / 4;
    const out = { base: columns, stride: end };
    return productParams({
      rowsAt: RowsAt.body,
      in: { base: 0, stride: columns },
      columns,
      blocks: columns / 32,
      groupCount: this.#groups,
      rowFirst: 0,
      zeroBase: this.#zeroBase,
      normBase: 0,
      epsilon: 1e-6,
      activation: 0,
      residual: null,
      residual2: null,
      roundKind: 0,
      segments: [{ first: 0, end, out, bias: kNone, biasUp: kNone }],
      experts: null,
      planesBase: 0,
    });
  }

  // The bits of all outputs.
  async outputs(row: RowTile | null): Promise<Uint32Array> {
    const { device } = gpu!;
    const { dtype, withNorm, paired } = this.#shape;
    const kinds = { withNorm, paired, experts: false, biased: false, tileRows: 1, parts: 4 };
    const of = { dtype, arithmetic: row ? kShuffled : kShared, ...kinds, row };
    const made = productKernels.matvec(of);
    const variant = row ? withoutShuffles(made, row.kAcross * row.kSets) : made;
    const unused = this.#filled(new Uint32Array(4));
    const shared = { step: unused, act: this.#act, aux: unused };
    const grid = [Math.ceil(this.#groups / groupsOfMatVec(of)), 1, 1] as const;
    const { dispatches } = await makeDispatches(this.#buffers, Pipelines.of(device),
      { ...shared, unusedRead: unused, unusedWrite: unused }, "test", [{
        variant,
        params: this.#params(),
        bound: { vectors: this.#vectors, data: this.#data, scale: this.#scale },
        grid: () => grid,
        when: () => true,
      }]);
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(this.#act, 4 * this.#shape.columns, this.#outBytes);
    const pass = encoder.beginComputePass();
    pass.setPipeline(dispatches[0]!.pipeline);
    pass.setBindGroup(0, dispatches[0]!.group);
    pass.dispatchWorkgroups(...grid);
    pass.end();
    const size = this.#outBytes;
    const result = device.createBuffer({ size, usage: Usage.mapRead | Usage.copyTo });
    encoder.copyBufferToBuffer(this.#act, 4 * this.#shape.columns, result, 0, size);
    device.queue.submit([encoder.finish()]);
    await result.mapAsync(1);
    const words = new Uint32Array(result.getMappedRange().slice(0));
    result.destroy();
    return words;
  }

  free(): void {
    this.#buffers.freeAll();
  }
}

// Groups of matrices for which tiles differ; these here have fewer.
const kSizes = [
  ...[64, 700].map((groups) => ({ blocks: 64, groups })),
  ...[256, 512].map((groups) => ({ blocks: 192, groups })),
  ...[512, 700, 2048].map((groups) => ({ blocks: 128, groups })),
];

describe.skipIf(!gpu?.hasIntegerDots)("one row with a block a thread", { timeout: 600_000 }, () => {
  for (const { form, columns, paired } of [
    { form: "q4s", columns: 2080, paired: true },
    { form: "q4s", columns: 4352, paired: false },
    { form: "q5k", columns: 2080, paired: false },
    { form: "q6k", columns: 2080, paired: true },
  ] as const) {
    it(`gives the same bits, ${form}, ${columns} columns`, async () => {
      const dtype = DType[form];
      const shape = { dtype, columns, outputs: 48, withNorm: paired, paired };
      const product = new Product(shape);
      const expected = await product.outputs(null);
      const isMade = (word: number): boolean => word !== 0 && (word & 0x7f800000) !== 0x7f800000;
      expect(expected.filter(isMade).length).toBe(expected.length);
      for (const rowWalk of ["blocks", "wide"] as const) {
        const arithmetic = { ...kShuffled, rowWalk };
        for (const { blocks, groups } of kSizes) {
          const of = { dtype, arithmetic, tileRows: 1, experts: false };
          const row = rowTileOf(of, blocks, groups)!;
          if (row.kAcross * row.kSets > gpu!.limits.workgroupThreads) continue;
          expect(await product.outputs(row), JSON.stringify(row)).toEqual(expected);
        }
      }
      product.free();
    });
  }
});
