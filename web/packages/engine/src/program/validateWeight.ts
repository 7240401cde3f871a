// The weights of a program: dtype and shape are ones that engines hold, and the parts add up to
// exactly the bytes that they need.
import { EngineError } from "../base/error.ts";
import {
  DType,
  isBlockFormat,
  isKQuant,
  isSuperblockFormat,
  kBlockValues,
  kSuperblockValues,
  recordBytesOf,
} from "./ir.ts";
import type { Part, Weight } from "./ir.ts";

const kMaxDimension = 2 ** 31;
const kMaxBytes = 2 ** 50;
const kMaxParts = 1 << 16;
const kDTypes: readonly number[] = Object.values(DType);

export function invalid(message: string): EngineError {
  return new EngineError("invalid_data", message);
}

export function shapeText(shape: readonly number[]): string {
  return `[${shape.join(", ")}]`;
}

export interface ArrayBytes {
  readonly data: number;
  readonly scale: number;
  readonly zero: number; // when there are zero points
}

export function rowsOf(weight: Pick<Weight, "shape">): number {
  return weight.shape.slice(0, -1).reduce((product, dim) => product * dim, 1);
}

export function columnsOf(weight: Pick<Weight, "shape">): number {
  return weight.shape.at(-1)!;
}

// Bytes of one row in each array.
export function rowBytes(dtype: number, columns: number): ArrayBytes {
  const blocks = Math.ceil(columns / kBlockValues);
  if (dtype === DType.q4) return { data: 16 * blocks, scale: 2 * blocks, zero: (blocks + 1) >> 1 };
  if (isSuperblockFormat(dtype)) {
    const superblocks = Math.ceil(columns / kSuperblockValues);
    return { data: 16 * blocks, scale: recordBytesOf(dtype) * superblocks, zero: 0 };
  }
  if (dtype === DType.q8) return { data: 32 * blocks, scale: 2 * blocks, zero: 0 };
  return { data: columns * (dtype === DType.f32 ? 4 : 2), scale: 0, zero: 0 };
}

export function checkWeight(weight: Weight): void {
  const what = `weight '${weight.name.slice(0, 200)}'`;
  if (!kDTypes.includes(weight.dtype)) {
    throw invalid(
      `The dtype of ${what} is ${weight.dtype}; expected one of ${Object.keys(DType).join(", ")}.`,
    );
  }
  const isBlock = isBlockFormat(weight.dtype);
  const { shape } = weight;
  const fits = shape.length >= (isBlock ? 2 : 1) && shape.length <= 3;
  if (!fits || shape.some((dim) => dim < 1 || dim > kMaxDimension)) {
    throw invalid(
      `The shape of ${what} is ${shapeText(shape)}; expected ${isBlock ? "2 or 3" : "1 to 3"} ` +
        `dimensions from 1 to ${kMaxDimension}.`,
    );
  }
  if (isKQuant(weight.dtype) && columnsOf(weight) % kSuperblockValues !== 0) {
    throw invalid(
      `The rows of ${what} ${shapeText(shape)} are no whole superblocks of ${kSuperblockValues}.`,
    );
  }
  const rows = rowsOf(weight);
  const { data, scale, zero } = rowBytes(weight.dtype, columnsOf(weight));
  if (rows * data > kMaxBytes) {
    throw invalid(`The bytes of ${what} ${shapeText(shape)} are beyond ${kMaxBytes}.`);
  }
  checkParts(`the data of ${what}`, weight.data, rows * data);
  checkParts(`the scales of ${what}`, weight.scale, rows * scale);
  if (weight.zero.length === 0) return;
  checkParts(`the zero points of ${what}`, weight.zero, rows * zero);
}

function checkParts(what: string, parts: readonly Part[], expected: number): void {
  if (parts.length > kMaxParts) {
    throw invalid(`${what} are ${parts.length} parts; at most ${kMaxParts} are read.`);
  }
  let total = 0;
  for (const { offset, byteCount } of parts) {
    if (byteCount < 1 || byteCount > kMaxBytes || offset > kMaxBytes) {
      throw invalid(
        `A part of ${what} has offset ${offset} and ${byteCount} bytes; expected 1 to ` +
          `${kMaxBytes}.`,
      );
    }
    total += byteCount;
  }
  if (total === expected) return;
  throw invalid(
    `The parts of ${what} hold ${total} bytes; its shape and dtype need ${expected}.`,
  );
}
