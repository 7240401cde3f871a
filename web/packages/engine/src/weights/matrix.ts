// A matrix on the GPU, in the form that the product kernels read. Rows in groups of 8, padded to
// whole blocks of 32 columns; a piece is 8 columns of a row in `pieceWordsOf` words:
//   data   words [group][row][piece]
//   scale  f16   [group][block][8], then u4 zero points [group][block][8]
// Of superblocks the words are those of q4, and instead of scales and zero points there are
//   q4s    2 i8  [group][block][8], the multipliers of 16 columns each, then f16
//                [group][superblock][8]
//   q4k .. [group][block] of 2 u8 [8] and upper bits u32 [8] or [2][8] (rule_kquants.wgsl), then
//          2 f16 [group][superblock][8]
// Neighbouring threads take neighbouring pieces or blocks and so read neighbouring bytes. One
// matrix may hold rows of several weights (q, k and v), and gate and up groups alternate in a
// paired one. What is larger than a binding may be is split into slabs of whole groups.
import { EngineError } from "../base/error.ts";
import type { Buffers } from "../gpu/buffers.ts";
import { Usage } from "../gpu/buffers.ts";
import { kNone } from "../kernels/common/op.ts";
import {
  DType,
  isBlockFormat,
  isKQuant,
  isSuperblockFormat,
  kBlockValues,
  kSuperblockValues,
  upperBitsOf,
} from "../program/ir.ts";
import type { Weight } from "../program/ir.ts";

export const kGroupRows = 8;

// Rows [firstRow, firstRow + rows) of a weight.
export interface Section {
  readonly weight: Weight;
  readonly firstRow: number;
  readonly rows: number;
}

// Sections of a paired matrix come in pairs (gate, up) of equal length, whose groups alternate.
export interface MatrixSpec {
  readonly sections: readonly Section[];
  readonly paired: boolean;
  readonly unitGroups?: number; // so many groups lie in one slab
}

export interface Slab {
  readonly data: GPUBuffer;
  readonly scale: GPUBuffer | null; // block formats
  readonly zeroBase: number; // word in `scale`: of zero points, or of superblocks' scales
  readonly firstGroup: number;
  readonly groupCount: number;
}

export interface Matrix {
  readonly key: string;
  readonly dtype: number;
  readonly columns: number;
  readonly blocks: number;
  readonly groupCount: number;
  readonly slabs: readonly Slab[];
}

export function groupsOf(rows: number): number {
  return Math.ceil(rows / kGroupRows);
}

// Words of 8 columns of a row.
export function pieceWordsOf(dtype: number): number {
  switch (dtype) {
    case DType.q4:
    case DType.q4s:
    case DType.q4k:
    case DType.q5k:
    case DType.q6k:
      return 1;
    case DType.q8:
      return 2;
    case DType.f32:
      return 8;
    default:
      return 4;
  }
}

// The same matrix twice (tied embeddings) is held once.
export function matrixKey({ sections, paired, unitGroups = 1 }: MatrixSpec): string {
  const parts = sections.map(({ weight, firstRow, rows }) => [
    weight.dtype,
    weight.shape,
    weight.data.map(({ digest, offset }) => [digest, offset]),
    firstRow,
    rows,
  ]);
  return JSON.stringify([paired, unitGroups, parts]);
}

function totalGroups({ sections }: MatrixSpec): number {
  return sections.reduce((sum, { rows }) => sum + groupsOf(rows), 0);
}

interface GroupBytes {
  readonly data: number;
  readonly scale: number;
  readonly zero: number;
}

function groupBytes(dtype: number, blocks: number, hasZero: boolean): GroupBytes {
  const data = blocks * pieceWordsOf(dtype) * kGroupRows * 16;
  if (isSuperblockFormat(dtype)) {
    const { partWords, factorWords } = superblockWords(dtype);
    return { data, scale: blocks * partWords * 4, zero: superblocksOf(blocks) * factorWords * 4 };
  }
  const scale = isBlockFormat(dtype) ? blocks * 16 : 0;
  return { data, scale, zero: hasZero ? blocks * 4 : 0 };
}

// Of eight rows: words of a block beside the data, and words of a superblock.
export function superblockWords(dtype: number): { partWords: number; factorWords: number } {
  if (!isKQuant(dtype)) return { partWords: 4, factorWords: 4 };
  return { partWords: 4 + 8 * upperBitsOf(dtype), factorWords: 8 };
}

export function superblocksOf(blocks: number): number {
  return Math.ceil((blocks * kBlockValues) / kSuperblockValues);
}

function hasZeroPoints({ sections }: MatrixSpec): boolean {
  return sections[0]!.weight.zero.length > 0;
}

// Bytes that the matrix takes on the GPU.
export function matrixBytes(spec: MatrixSpec): number {
  const { weight } = spec.sections[0]!;
  const blocks = Math.ceil(weight.shape.at(-1)! / kBlockValues);
  const { data, scale, zero } = groupBytes(weight.dtype, blocks, hasZeroPoints(spec));
  return totalGroups(spec) * (data + scale + zero);
}

// Those of them that one binding must hold (or slabs, each of whole groups).
export function matrixDataBytes(spec: MatrixSpec): number {
  const { weight } = spec.sections[0]!;
  const blocks = Math.ceil(weight.shape.at(-1)! / kBlockValues);
  return totalGroups(spec) * groupBytes(weight.dtype, blocks, false).data;
}

// The buffers of a matrix, still without contents.
export function makeMatrix(buffers: Buffers, spec: MatrixSpec): Matrix {
  const { weight } = spec.sections[0]!;
  const columns = weight.shape.at(-1)!;
  const blocks = Math.ceil(columns / kBlockValues);
  const hasZero = hasZeroPoints(spec);
  const bytes = groupBytes(weight.dtype, blocks, hasZero);
  const most = Math.floor(buffers.gpu.limits.bindingBytes / bytes.data);
  const groupCount = totalGroups(spec);
  const unit = spec.unitGroups ?? 2; // a gate group and its up group
  const perSlab = Math.min(groupCount, most - (most % unit));
  if (perSlab < 1) {
    throw new EngineError(
      "unsupported",
      `${unit * kGroupRows} rows of weight '${weight.name}' take ${unit * bytes.data} bytes; ` +
        `this device binds at most ${buffers.gpu.limits.bindingBytes}.`,
    );
  }
  const usage = Usage.storage | Usage.copyTo | Usage.copyFrom;
  const slabs: Slab[] = [];
  for (let first = 0; first < groupCount; first += perSlab) {
    const count = Math.min(perSlab, groupCount - first);
    const scaleBytes = count * (bytes.scale + bytes.zero);
    slabs.push({
      data: buffers.make(weight.name, "weights", count * bytes.data, usage),
      scale:
        scaleBytes > 0 ? buffers.make(weight.name, "weights", scaleBytes, usage) : null,
      zeroBase: bytes.zero > 0 ? (count * bytes.scale) / 4 : kNone,
      firstGroup: first,
      groupCount: count,
    });
  }
  return { key: matrixKey(spec), dtype: weight.dtype, columns, blocks, groupCount, slabs };
}

export function freeMatrix(buffers: Buffers, matrix: Matrix): void {
  for (const { data, scale } of matrix.slabs) {
    buffers.free(data);
    if (scale) buffers.free(scale);
  }
}
