// A Qwen3-shaped model of any size with random weights in q4, or those of its layers in
// superblocks, made as it is read: benchmarks of the exact real shapes without a download.
import { create, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";

import { ProgramSchema } from "../../gen/program/program_pb.ts";
import { DType, isSuperblockFormat, kProgramVersion, recordBytesOf } from "../program/ir.ts";
import { rowBytes } from "../program/validateWeight.ts";
import type { WeightSource } from "../stage/stageEngine.ts";

export interface ModelShape {
  readonly layers: number;
  readonly hidden: number;
  readonly width: number; // of the feed-forward network
  readonly heads: number;
  readonly kvHeads: number;
  readonly headColumns: number;
  readonly vocabulary: number;
}

// These are for tests; the benchmark has its own (bench/webgpu/shapes.mjs).
export const kShapes: Readonly<Record<string, ModelShape>> = {
  tiny: {
    layers: 2,
    hidden: 64,
    width: 96,
    heads: 4,
    kvHeads: 2,
    headColumns: 16,
    vocabulary: 300,
  },
};

type ProgramInit = MessageInitShape<typeof ProgramSchema>;
type Weights = NonNullable<ProgramInit["weights"]>;
type Ops = NonNullable<ProgramInit["ops"]>;

// The first byte of a digest says what its bytes are; the rest makes weights different ones, so
// that none is shared.
// Records are of the dtype that is added.
const Kind = { nibbles: 1, scales: 2, floats: 3, frequencies: 4, records: 5 } as const;

// Of q4s: S = 2^-10, signs, magnitudes of 1 to 7. Of k-quants: d and e of 2^-14, any s, m and bits.
function recordOf(dtype: number): Uint8Array {
  if (dtype === DType.q4s) {
    const words = Uint16Array.of(0x1400, 0x5a3c, 0x3571, 0x1642, 0x7513, 0x2461);
    return new Uint8Array(words.buffer);
  }
  const bytes = Uint8Array.from({ length: recordBytesOf(dtype) }, (_, i) => (i * 73 + 41) & 255);
  bytes.set([0, 4]);
  if (dtype !== DType.q6k) bytes.set([0, 4], 2);
  return bytes;
}
let digestCount = 0;

function digest(kind: number): Uint8Array {
  const bytes = new Uint8Array(32);
  bytes[0] = kind;
  new DataView(bytes.buffer).setUint32(4, ++digestCount);
  return bytes;
}

interface PartInit {
  readonly digest: Uint8Array;
  readonly offset: bigint;
  readonly byteCount: bigint;
}

function part(kind: number, byteCount: number): PartInit {
  return { digest: digest(kind), offset: 0n, byteCount: BigInt(byteCount) };
}

function matrix(dtype: number, rows: number, columns: number): Weights[number] {
  const bytes = rowBytes(dtype, columns);
  const kind = isSuperblockFormat(dtype) ? Kind.records + dtype : Kind.scales;
  return {
    name: `[${rows}, ${columns}]`,
    dtype,
    shape: [BigInt(rows), BigInt(columns)],
    data: [part(Kind.nibbles, rows * bytes.data)],
    scale: [part(kind, rows * bytes.scale)],
  };
}

function q4(rows: number, columns: number): Weights[number] {
  return matrix(DType.q4, rows, columns);
}

function vector(columns: number, kind: number = Kind.floats): Weights[number] {
  const shape = [BigInt(columns)];
  return { name: "vector", dtype: DType.f32, shape, data: [part(kind, 4 * columns)] };
}

const kBytes = 1 << 20;

export class RandomModel implements WeightSource {
  readonly shape: ModelShape;
  readonly #dtype: number;
  readonly #pattern = new Uint8Array(kBytes);

  constructor(shape: ModelShape, dtype: number = DType.q4) {
    this.shape = shape;
    this.#dtype = dtype;
    let state = 12345;
    for (let i = 0; i < kBytes; ++i) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      this.#pattern[i] = state >>> 24;
    }
  }

  get range(): { first: number; end: number } {
    return { first: 0, end: this.shape.layers + 2 };
  }

  layerProgram(layer: number): string {
    return `program ${layer}`;
  }

  readBlob(name: string): Promise<Uint8Array<ArrayBuffer>> {
    const layer = Number(name.split(" ")[1]);
    const { layers } = this.shape;
    const made =
      layer === 0 ? this.#embedding() : layer > layers ? this.#head(layer) : this.#layer(layer);
    return Promise.resolve(Uint8Array.from(toBinary(ProgramSchema, create(ProgramSchema, made))));
  }

  readRange(name: string, offset: number, byteCount: number): Promise<Uint8Array<ArrayBuffer>> {
    const kind = Number.parseInt(name.slice(0, 2), 16);
    const bytes = new Uint8Array(byteCount);
    if (kind === Kind.nibbles) {
      for (let at = 0; at < byteCount;) {
        const first = (offset + at) % kBytes;
        const piece = this.#pattern.subarray(first, first + byteCount - at);
        bytes.set(piece, at);
        at += piece.length;
      }
    } else if (kind >= Kind.records) {
      const record = recordOf(kind - Kind.records);
      for (let at = 0; at < byteCount; ++at) bytes[at] = record[(offset + at) % record.length]!;
    } else if (kind === Kind.scales) {
      new Uint16Array(bytes.buffer).fill(0x1c00); // 2^-8
    } else {
      const values = new Float32Array(bytes.buffer);
      for (let i = 0; i < values.length; ++i) {
        values[i] = kind === Kind.floats ? 1 : 1e6 ** (-(offset / 4 + i) / values.length);
      }
    }
    return Promise.resolve(bytes);
  }

  #embedding(): ProgramInit {
    const { hidden, vocabulary } = this.shape;
    const out = { buffer: 0, firstColumn: 0, columns: hidden };
    return {
      version: kProgramVersion,
      layerIndex: 0,
      buffers: [{ name: "hidden", columns: hidden }],
      weights: [q4(vocabulary, hidden)],
      ops: [{ kind: { case: "embed", value: { weight: 0, out, scale: 1 } } }],
      output: 0,
    };
  }

  #head(layerIndex: number): ProgramInit {
    const { hidden, vocabulary } = this.shape;
    const view = (buffer: number, columns: number) => ({ buffer, firstColumn: 0, columns });
    const norm = { in: view(0, hidden), out: view(1, hidden), weight: 0, epsilon: 1e-6 };
    const weight = { weight: 1, firstRow: 0, rows: vocabulary };
    const product = { in: view(1, hidden), out: view(2, vocabulary), weight };
    return {
      version: kProgramVersion,
      layerIndex,
      buffers: [hidden, hidden, vocabulary].map((columns) => ({ name: "b", columns })),
      weights: [vector(hidden), q4(vocabulary, hidden)],
      ops: [
        { kind: { case: "rmsNorm", value: norm } },
        { kind: { case: "matmul", value: product } },
      ],
      input: 0,
      output: 2,
    };
  }

  #layer(layerIndex: number): ProgramInit {
    const { hidden, width, heads, kvHeads, headColumns } = this.shape;
    const ofLayer = (rows: number, from: number): Weights[number] =>
      matrix(this.#dtype, rows, from);
    const q = heads * headColumns;
    const kv = kvHeads * headColumns;
    const columns = [hidden, hidden, q, kv, kv, q, hidden, hidden, hidden, width, width, width];
    const all = [...columns, hidden, hidden];
    const view = (buffer: number) => ({ buffer, firstColumn: 0, columns: all[buffer]! });
    const product = (from: number, to: number, weight: number): Ops[number] => {
      const rows = all[to]!;
      const value = { in: view(from), out: view(to), weight: { weight, firstRow: 0, rows } };
      return { kind: { case: "matmul", value } };
    };
    const norm = (from: number, to: number, weight: number): Ops[number] => ({
      kind: { case: "rmsNorm", value: { in: view(from), out: view(to), weight, epsilon: 1e-6 } },
    });
    const add = (a: number, b: number, out: number): Ops[number] => ({
      kind: { case: "add", value: { a: view(a), b: view(b), out: view(out) } },
    });
    const rope = (buffer: number, count: number): Ops[number] => {
      const views = { in: view(buffer), out: view(buffer), heads: count, headColumns };
      const value = { ...views, normWeight: 9, epsilon: 1e-6, rope: { invFreq: 10, scale: 1 } };
      return { kind: { case: "qkNormRope", value } };
    };
    const attention = { q: view(2), k: view(3), v: view(4), out: view(5), heads, kvHeads };
    const gated = { gate: view(9), up: view(10), out: view(11), kind: 0 };
    return {
      version: kProgramVersion,
      layerIndex,
      buffers: all.map((count) => ({ name: "b", columns: count })),
      weights: [
        vector(hidden),
        ofLayer(q, hidden),
        ofLayer(kv, hidden),
        ofLayer(kv, hidden),
        ofLayer(hidden, q),
        vector(hidden),
        ofLayer(width, hidden),
        ofLayer(width, hidden),
        ofLayer(hidden, width),
        vector(headColumns),
        vector(headColumns / 2, Kind.frequencies),
      ],
      ops: [
        norm(0, 1, 0),
        product(1, 2, 1),
        product(1, 3, 2),
        product(1, 4, 3),
        rope(2, heads),
        rope(3, kvHeads),
        {
          kind: {
            case: "attention",
            value: { ...attention, headColumns, scale: headColumns ** -0.5 },
          },
        },
        product(5, 6, 4),
        add(0, 6, 7),
        norm(7, 8, 5),
        product(8, 9, 6),
        product(8, 10, 7),
        { kind: { case: "gatedActivation", value: gated } },
        product(11, 12, 8),
        add(7, 12, 13),
      ],
      input: 0,
      output: 13,
    };
  }

  loaded(): Promise<void> {
    return Promise.resolve();
  }

  readGraph(): Promise<Uint8Array<ArrayBuffer>> {
    return Promise.reject(new Error("a random model has no graph"));
  }

  layerBlobs(): readonly string[] {
    return [];
  }

  layerKvBytes(): number {
    return 0;
  }
}
