// Inputs of conformance cases from their seeds: tests/conformance/README.md.
import { DType } from "../program/ir.ts";

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
  return blocksOf(input);
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
