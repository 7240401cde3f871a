// Products of a layer in ranges of their columns, which several devices may compute: an output
// head's, or those of attention in a layer with experts or neuron groups. All ranges of a product
// have the same number of columns, so that the last one begins early enough to end with it.
//
// Ranges are numbered behind the layer's experts, in the order of the operations. A column has the
// same bits in any range. The counterpart of src/program/product_ranges.h.
import { EngineError } from "../base/error.ts";
import type { MatMul, MoeExperts, Part, Program, Weight } from "./ir.ts";
import { cut } from "./parts.ts";

const kRowsTogether = 16; // of a weight, in kernels
const kMostColumns = 65535; // of a row in a frame

export interface ProductRanges {
  readonly product: MatMul;
  readonly firstPart: number; // the number of its first range
  readonly count: number; // at least 2
  readonly columns: number; // of each
  readonly total: number; // columns of all
}

// The experts, or neuron groups, of a layer; null where it has none.
export function findExperts({ ops }: Program): MoeExperts | null {
  return ops.find((op): op is MoeExperts => op.kind === "moeExperts") ?? null;
}

// Those of an output head; null where the program is no head, or its product is whole.
export function findHeadRanges(program: Program): ProductRanges | null {
  if (findExperts(program)) return null;
  const { ops, output, buffers } = program;
  const product = ops.findLast(
    (op): op is MatMul => op.kind === "matmul" && op.out.buffer === output,
  );
  if (!product || product.bias !== null) return null;
  return product.out.columns === buffers[output]!.columns ? rangesOf(product, 0) : null;
}

// The ranges of all products that name some, in the order of the operations. Where they do not
// divide a product, or it is no output head and the layer has no experts, it is whole.
export function findRanges(program: Program): ProductRanges[] {
  const experts = findExperts(program);
  if (!experts) {
    const head = findHeadRanges(program);
    return head ? [head] : [];
  }
  const found: ProductRanges[] = [];
  let next = experts.experts;
  for (const op of program.ops) {
    const ranges = op.kind === "matmul" ? rangesOf(op, next) : null;
    if (!ranges) continue;
    found.push(ranges);
    next += ranges.count;
  }
  return found;
}

// null: a range would begin behind the end, or be longer than what a frame says of its columns.
function rangesOf(product: MatMul, firstPart: number): ProductRanges | null {
  const { ranges: count, out: { columns: total } } = product;
  if (count < 2 || count > total) return null;
  const columns = Math.ceil(total / count / kRowsTogether) * kRowsTogether;
  const fits = columns * (count - 1) < total && columns <= Math.min(total, kMostColumns);
  return fits ? { product, firstPart, count, columns, total } : null;
}

// The first column of this range of its product.
export function firstColumnOf(ranges: ProductRanges, part: number): number {
  const { firstPart, columns, total } = ranges;
  return Math.min((part - firstPart) * columns, total - columns);
}

// A program that computes one of the program's ranges, findRanges(program), from the rows that go
// into its product: [columns of a row] -> [columns of a range]. Throws EngineError
// (invalid_argument) where there is no such range.
export function rangeProgram(
  program: Program,
  products: readonly ProductRanges[],
  part: number,
): Program {
  const ranges = products.find(
    ({ firstPart, count }) => part >= firstPart && part < firstPart + count,
  );
  if (!ranges) {
    throw new EngineError(
      "invalid_argument",
      `Layer ${program.layerIndex} has no range ${part} of a product.`,
    );
  }
  const { product, columns } = ranges;
  const first = firstColumnOf(ranges, part);
  const { weight, firstRow } = product.weight;
  const weights = [rowsOf(program.weights[weight]!, firstRow + first, columns)];
  if (product.bias !== null) weights.push(rowsOf(program.weights[product.bias]!, first, columns));
  const bias = product.bias === null ? null : 1;
  const row = { buffer: 0, firstColumn: 0, columns: product.in.columns };
  const out = { buffer: 1, firstColumn: 0, columns };
  const whole = { weight: 0, firstRow: 0, rows: columns };
  return {
    layerIndex: program.layerIndex,
    buffers: [
      { name: "row", columns: row.columns },
      { name: "range", columns },
    ],
    weights,
    ops: [{ kind: "matmul", in: row, out, weight: whole, bias, ranges: 0 }],
    input: 0,
    output: 1,
  };
}

// Rows [first, first + count) of a matrix, or of a vector.
function rowsOf(matrix: Weight, first: number, count: number): Weight {
  const [rows, ...rest] = matrix.shape as [number, ...number[]];
  const taken = (parts: readonly Part[]): Part[] => {
    const each = parts.reduce((sum, { byteCount }) => sum + byteCount, 0) / rows;
    return cut(parts, first * each, (first + count) * each);
  };
  return {
    ...matrix,
    shape: [count, ...rest],
    data: taken(matrix.data),
    scale: taken(matrix.scale),
    zero: taken(matrix.zero),
  };
}
