// Inputs of conformance cases from their seeds: tests/conformance/README.md.
import { f16ToF32 } from "../base/half.ts";
import { DType, isKQuant, recordBytesOf, upperBitsOf } from "../program/ir.ts";
import { rowBytes } from "../program/validateWeight.ts";

export interface CaseInput {
  readonly kind: string;
  readonly shape: readonly number[];
  readonly seed: number;
  readonly amplitude?: number;
  readonly offset?: number;
  readonly bound?: number;
  readonly zero?: boolean;
}

export interface ConformanceCase {
  readonly name: string;
  readonly op: string;
  readonly params: Readonly<Record<string, number | string | boolean>>;
  readonly inputs: Readonly<Record<string, CaseInput>>;
  readonly tolerance: number;
  readonly expected: readonly number[];
}

export function caseHash(seed: number, i: number): number {
  let x = (Math.imul(seed, 0x9e3779b1) + i) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b) >>> 0;
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35) >>> 0;
  return (x ^ (x >>> 16)) >>> 0;
}

function countOf({ shape }: CaseInput): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

export function floatsOf(input: CaseInput): Float32Array<ArrayBuffer> {
  const { seed, amplitude = 1, offset = 0, bound = 1, kind } = input;
  return Float32Array.from({ length: countOf(input) }, (_, i) =>
    kind === "i32_as_f32"
      ? caseHash(seed, i) % bound
      : ((caseHash(seed, i) >>> 8) / 8388608 - 1) * amplitude + offset,
  );
}

export function intsOf(input: CaseInput): Int32Array<ArrayBuffer> {
  const { seed, bound = 1 } = input;
  return Int32Array.from({ length: countOf(input) }, (_, i) => caseHash(seed, i) % bound);
}

export interface WeightArrays {
  readonly dtype: number;
  readonly shape: readonly number[];
  readonly data: Uint8Array<ArrayBuffer>;
  readonly scale: Uint8Array<ArrayBuffer>;
  readonly zero: Uint8Array<ArrayBuffer>;
}

const kNothing = new Uint8Array(0);

export function weightOf(input: CaseInput): WeightArrays {
  const { kind, shape, seed } = input;
  if (kind === "f32") {
    const data = new Uint8Array(floatsOf(input).buffer);
    return { dtype: DType.f32, shape, data, scale: kNothing, zero: kNothing };
  }
  if (kind === "f16" || kind === "bf16") {
    const bits = Uint16Array.from({ length: countOf(input) }, (_, i) => {
      const h = caseHash(seed, i);
      const [least, range] = kind === "f16" ? [0x2800, 0x1000] : [0x3d00, 0x200];
      const magnitude = least + ((h >>> 16) % range);
      return (h & 0x8000) | magnitude;
    });
    const data = new Uint8Array(bits.buffer);
    return { dtype: DType[kind], shape, data, scale: kNothing, zero: kNothing };
  }
  const [form, plain] = kind.split("_as_");
  const dtype = kSuperblockForms[form!];
  if (dtype === undefined) return blocksOf(input);
  const arrays = isKQuant(dtype) ? kQuantsOf(dtype, input) : superblocksOf(input);
  return plain === "f32" ? plainOf(arrays) : arrays;
}

const kSuperblockForms: Readonly<Record<string, number | undefined>> = {
  q4s: DType.q4s,
  q4k: DType.q4k,
  q5k: DType.q5k,
  q6k: DType.q6k,
};

// Of a row of a k-quant: s * q (q6k: s * (q - 32)) and m of every column, d and e of superblocks,
// as src/tensor/kquants.h has them.
export interface KQuantRow {
  readonly weights: Int16Array;
  readonly minima: Uint8Array;
  readonly factors: Float32Array; // [superblocks, 2]
}

export function kQuantRow(arrays: WeightArrays, row: number): KQuantRow {
  const { dtype, shape } = arrays;
  const columns = shape.at(-1)!;
  const bytes = rowBytes(dtype, columns);
  const record = recordBytesOf(dtype);
  const bits = upperBitsOf(dtype);
  const weights = new Int16Array(columns);
  const minima = new Uint8Array(columns);
  const halves = new Uint16Array(columns / 128);
  let own = new Uint8Array(0);
  let view = new DataView(own.buffer);
  for (let k = 0; k < columns; ++k) {
    const c = k & 255;
    if (c === 0) {
      const first = row * bytes.scale + record * (k >> 8);
      own = arrays.scale.subarray(first, first + record);
      view = new DataView(own.buffer, own.byteOffset, record);
    }
    let q = (arrays.data[row * bytes.data + (k >> 1)]! >> (4 * (k & 1))) & 15;
    if (bits > 0) {
      const perWord = 32 / bits;
      const at = (bits === 1 ? 16 : 18) + 4 * Math.floor(c / perWord) + (c & 3);
      q |= ((own[at]! >> (bits * ((c % perWord) >> 2))) & (2 ** bits - 1)) << 4;
    }
    if ((c & 127) === 0) halves[k >> 7] = view.getUint16(0, true);
    if (bits === 2) {
      weights[k] = view.getInt8(2 + (c >> 4)) * (q - 32);
      if (c === 128) halves[k >> 7] = 0;
      continue;
    }
    if (c === 128) halves[k >> 7] = view.getUint16(2, true);
    const j = 4 + (c >> 5); // six bits of s and of m each, of groups 4 to 7 in three places
    const s = j < 8 ? own[j]! & 63 : (own[j + 4]! & 15) | ((own[j - 4]! >> 6) << 4);
    const m = j < 8 ? own[j + 4]! & 63 : (own[j + 4]! >> 4) | ((own[j]! >> 6) << 4);
    weights[k] = s * q;
    minima[k] = m;
  }
  const factors = new Float32Array(halves.length);
  f16ToF32(halves, factors);
  return { weights, minima, factors };
}

// Any levels, s and m; d of 2^-14 to 2^-13, e of both signs.
function kQuantsOf(dtype: number, { shape, seed }: CaseInput): WeightArrays {
  const [rows, columns] = [shape.slice(0, -1).reduce((a, b) => a * b, 1), shape.at(-1)!];
  const bytes = rowBytes(dtype, columns);
  const data = Uint8Array.from({ length: rows * bytes.data }, (_, i) => caseHash(seed, i) & 255);
  const scale = Uint8Array.from({ length: rows * bytes.scale }, (_, i) => {
    const hash = caseHash(seed + 1, i);
    const at = i % recordBytesOf(dtype);
    if (at === 1) return 4 + (hash & 3);
    return at === 3 && dtype !== DType.q6k ? (4 + (hash & 3)) | (hash & 128) : hash & 255;
  });
  return { dtype, shape, data, scale, zero: kNothing };
}

// m * (q - 8) of the values of a row, and S of its superblocks.
export function superblockRow(
  { data, scale, shape }: WeightArrays,
  row: number,
): { readonly values: Int8Array; readonly scales: Float32Array } {
  const columns = shape.at(-1)!;
  const bytes = rowBytes(DType.q4s, columns);
  const words = new Uint16Array(scale.buffer, row * bytes.scale, bytes.scale / 2);
  const values = Int8Array.from({ length: columns }, (_, k) => {
    const both = data[row * bytes.data + (k >> 1)]!;
    const record = 6 * (k >> 8);
    const i = (k >> 4) & 15;
    const size = (words[record + 2 + (i >> 2)]! >> (4 * (i & 3))) & 15;
    const m = ((words[record + 1]! >> i) & 1) === 1 ? -size : size;
    return m * (((both >> (4 * (k & 1))) & 15) - 8);
  });
  const halves = words.filter((_, i) => i % 6 === 0);
  const scales = new Float32Array(halves.length);
  f16ToF32(halves, scales);
  return { values, scales };
}

// The same weights in f32.
function plainOf(arrays: WeightArrays): WeightArrays {
  const { shape } = arrays;
  const columns = shape.at(-1)!;
  const rows = shape.slice(0, -1).reduce((product, dim) => product * dim, 1);
  const floats = new Float32Array(rows * columns);
  for (let row = 0; row < rows; ++row) {
    if (isKQuant(arrays.dtype)) {
      const { weights, minima, factors } = kQuantRow(arrays, row);
      for (let k = 0; k < columns; ++k) {
        const at = 2 * (k >> 8);
        const least = factors[at + 1]! * minima[k]!;
        floats[row * columns + k] = factors[at]! * weights[k]! - least;
      }
      continue;
    }
    const { values, scales } = superblockRow(arrays, row);
    for (const [k, value] of values.entries()) {
      floats[row * columns + k] = value * scales[k >> 8]!;
    }
  }
  const data = new Uint8Array(floats.buffer);
  return { dtype: DType.f32, shape, data, scale: kNothing, zero: kNothing };
}

// Nibbles, and records of S between 2^-9 and 2^-7, signs and magnitudes of 1 to 15.
function superblocksOf({ shape, seed }: CaseInput): WeightArrays {
  const [rows, columns] = [shape.slice(0, -1).reduce((a, b) => a * b, 1), shape.at(-1)!];
  const bytes = rowBytes(DType.q4s, columns);
  const data = Uint8Array.from({ length: rows * bytes.data }, (_, i) => caseHash(seed, i) & 255);
  const words = Uint16Array.from({ length: (rows * bytes.scale) / 2 }, (_, i) => {
    const hash = caseHash(seed + 1, i);
    if (i % 6 === 0) return 0x1800 + (hash % 0x800);
    if (i % 6 === 1) return hash & 0xffff;
    return [0, 4, 8, 12].reduce((word, at) => word | ((1 + ((hash >>> at) % 15)) << at), 0);
  });
  const scale = new Uint8Array(words.buffer);
  return { dtype: DType.q4s, shape, data, scale, zero: kNothing };
}

function blocksOf({ kind, shape, seed, zero: withZero }: CaseInput): WeightArrays {
  const isQ8 = kind === "q8";
  const columns = shape.at(-1)!;
  const rows = shape.slice(0, -1).reduce((product, dim) => product * dim, 1);
  const blocks = Math.ceil(columns / 32);
  const rowBytes = blocks * (isQ8 ? 32 : 16);
  const zeroRowBytes = (blocks + 1) >> 1;
  const data = Uint8Array.from({ length: rows * rowBytes }, (_, i) => caseHash(seed, i) & 255);
  const scale = Uint16Array.from(
    { length: rows * blocks },
    (_, i) => (isQ8 ? 0x1c00 : 0x2000) + (caseHash(seed + 1, i) % 0x800),
  );
  const zero = Uint8Array.from(
    { length: withZero === true ? rows * zeroRowBytes : 0 },
    (_, i) => caseHash(seed + 2, i) & 255,
  );
  for (let row = 0; row < rows; ++row) {
    for (let k = columns; k < blocks * 32; ++k) {
      const block = k >> 5;
      const packed = zero[row * zeroRowBytes + (block >> 1)];
      const point = packed === undefined ? 8 : (packed >> (4 * (block % 2))) & 15;
      const at = row * rowBytes + (isQ8 ? k : k >> 1);
      const shift = 4 * (k % 2);
      data[at] = isQ8 ? 128 : (data[at]! & (0xf0 >> shift)) | (point << shift);
    }
  }
  const dtype = isQ8 ? DType.q8 : DType.q4;
  return { dtype, shape, data, scale: new Uint8Array(scale.buffer), zero };
}
