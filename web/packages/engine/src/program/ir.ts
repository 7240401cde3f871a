// The program of one layer as plain data: the same names and meanings as src/program/ir.h, where
// shapes and aliasing are described. Made by decode.ts, checked by validate.ts.
// Operations, enums and limits are made from src/program/ops.json.
import { writtenBy } from "../../gen/program/ops.ts";
import type { Attention, Op } from "../../gen/program/ops.ts";

export * from "../../gen/program/ops.ts";
export * from "./views.ts";

// The numbers of tensor/dtype.h, as far as weights have them.
export const DType = {
  f32: 0,
  f16: 1,
  bf16: 2,
  q8: 16,
  q4: 17,
  q4s: 18,
  q4k: 19,
  q5k: 20,
  q6k: 21,
} as const;
export const kBlockValues = 32;
export const kSuperblockValues = 256;

export function isKQuant(dtype: number): boolean {
  return dtype === DType.q4k || dtype === DType.q5k || dtype === DType.q6k;
}

export function isSuperblockFormat(dtype: number): boolean {
  return dtype === DType.q4s || isKQuant(dtype);
}

export function isBlockFormat(dtype: number): boolean {
  return dtype === DType.q8 || dtype === DType.q4 || isSuperblockFormat(dtype);
}

// Bits of a level above its low four. REQUIRES: isKQuant(dtype).
export function upperBitsOf(dtype: number): number {
  return dtype - DType.q4k;
}

// Bytes of a superblock's record. REQUIRES: isSuperblockFormat(dtype).
export function recordBytesOf(dtype: number): number {
  if (dtype === DType.q4s) return 12;
  return dtype === DType.q4k ? 16 : dtype === DType.q5k ? 48 : 82;
}

export interface Part {
  readonly digest: string; // hexadecimal
  readonly offset: number;
  readonly byteCount: number;
}

export interface Weight {
  readonly name: string;
  readonly dtype: number;
  readonly shape: readonly number[]; // [columns], [rows, columns] or [experts, rows, columns]
  readonly data: readonly Part[];
  readonly scale: readonly Part[]; // block formats only
  readonly zero: readonly Part[]; // q4 with zero points only
}

export interface Buffer {
  readonly name: string;
  readonly columns: number;
}

export interface Program {
  readonly layerIndex: number;
  readonly buffers: readonly Buffer[];
  readonly weights: readonly Weight[];
  readonly ops: readonly Op[];
  readonly input: number | null; // buffer; none for the embedding
  readonly output: number;
}

// Columns that attention gives for a query head.
export function outColumnsOf({ headColumns, valueColumns }: Attention): number {
  return valueColumns > 0 ? valueColumns : headColumns;
}

export function findAttention(program: Program): Attention | null {
  return program.ops.find((op): op is Attention => op.kind === "attention") ?? null;
}

// f32 values that an operation carries from row to row of a session: src/program/state.h.
export function stateFloatsOf({ weights }: Pick<Program, "weights">, op: Op): number {
  switch (op.kind) {
    case "causalConv":
      return (weights[op.weight]!.shape[1]! - 1) * op.in.columns;
    case "deltaRule":
      return op.valueHeads * op.keyColumns * op.valueColumns;
    case "ssmScan":
      return op.heads * op.headColumns * op.stateColumns;
    default:
      return 0;
  }
}

// The state of a session in the layer; 0 for most layers.
export function stateFloats(program: Program): number {
  return program.ops.reduce((sum, op) => sum + stateFloatsOf(program, op), 0);
}

// True unless the output is a sum, or a sum times a number: a layer adds to the residual stream
// last (Gemma 4's then scale it), the head ends with a product (and perhaps a scale or softcap). As
// loaded_layer.cc.
export function endsInLogits(program: Program): boolean {
  if (program.input === null) return false;
  const held = new Map<number, "sum" | "rows" | "other">(); // what operations left in a buffer
  for (const op of program.ops) {
    const isSum = op.kind === "add" || (op.kind === "scale" && held.get(op.in.buffer) === "sum");
    const rest = op.kind === "exchange" || op.kind === "moeExperts" ? "rows" : "other";
    held.set(writtenBy(op).buffer, isSum ? "sum" : rest);
  }
  return held.get(program.output) === "other";
}
