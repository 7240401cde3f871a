// An output head in ranges of the vocabulary, which several devices may compute
// (src/program/head_ranges.h): all have the same number of columns, so that the last one begins
// early enough to end with the vocabulary.
import { EngineError } from "../base/error.ts";
import type { MatMul, Part, Program, Weight } from "./ir.ts";
import { cut } from "./parts.ts";

const kRowsTogether = 16; // of a weight, in kernels
const kMostColumns = 65535; // of a row in a frame

export interface HeadRanges {
  readonly product: MatMul;
  readonly count: number; // at least 2
  readonly columns: number; // of each
  readonly vocabulary: number; // of all
}

// null where the layer's product names no ranges, as in all layers but an output head, or where
// they do not divide it.
export function findHeadRanges({ ops, output, buffers }: Program): HeadRanges | null {
  const product = ops.findLast(
    (op): op is MatMul => op.kind === "matmul" && op.out.buffer === output,
  );
  if (!product || product.bias !== null) return null;
  const { ranges: count, out: { columns: vocabulary } } = product;
  if (vocabulary !== buffers[output]!.columns || count < 2 || count > vocabulary) return null;
  const columns = Math.ceil(vocabulary / count / kRowsTogether) * kRowsTogether;
  const fits = columns * (count - 1) < vocabulary && columns <= Math.min(vocabulary, kMostColumns);
  return fits ? { product, count, columns, vocabulary } : null;
}

// A program that computes a range from the rows that go into the product: [columns of a row] ->
// [columns of a range]. Throws EngineError (invalid_argument) where there is no such range.
export function rangeProgram(program: Program, head: HeadRanges, range: number): Program {
  const { product, count, columns, vocabulary } = head;
  if (range >= count) {
    throw new EngineError(
      "invalid_argument",
      `Layer ${program.layerIndex} has no range ${range} of the vocabulary, only ${count}.`,
    );
  }
  const first = Math.min(range * columns, vocabulary - columns);
  const { weight, firstRow } = product.weight;
  const row = { buffer: 0, firstColumn: 0, columns: product.in.columns };
  const out = { buffer: 1, firstColumn: 0, columns };
  const whole = { weight: 0, firstRow: 0, rows: columns };
  return {
    layerIndex: program.layerIndex,
    buffers: [
      { name: "row", columns: row.columns },
      { name: "range", columns },
    ],
    weights: [rowsOf(program.weights[weight]!, firstRow + first, columns)],
    ops: [{ kind: "matmul", in: row, out, weight: whole, bias: null, ranges: 0 }],
    input: 0,
    output: 1,
  };
}

// Rows [first, first + count) of the matrix.
function rowsOf(matrix: Weight, first: number, count: number): Weight {
  const [rows, columns] = matrix.shape as [number, number];
  const taken = (parts: readonly Part[]): Part[] => {
    const each = parts.reduce((sum, { byteCount }) => sum + byteCount, 0) / rows;
    return cut(parts, first * each, (first + count) * each);
  };
  return {
    ...matrix,
    shape: [count, columns],
    data: taken(matrix.data),
    scale: taken(matrix.scale),
    zero: taken(matrix.zero),
  };
}
