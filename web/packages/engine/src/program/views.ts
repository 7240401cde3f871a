// What operations of a program refer to: src/program/views.h. The operations themselves are
// described by src/program/ops.json.

// Columns [firstColumn, firstColumn + columns) of a buffer.
export interface View {
  readonly buffer: number;
  readonly firstColumn: number;
  readonly columns: number;
}

export interface WeightView {
  readonly weight: number;
  readonly firstRow: number;
  readonly rows: number;
}

export interface Rope {
  readonly invFreq: number; // weight
  readonly scale: number;
  readonly interleaved: boolean;
}

export function overlap(a: View, b: View): boolean {
  return (
    a.buffer === b.buffer &&
    a.firstColumn < b.firstColumn + b.columns &&
    b.firstColumn < a.firstColumn + a.columns
  );
}

export function same(a: View, b: View): boolean {
  return a.buffer === b.buffer && a.firstColumn === b.firstColumn && a.columns === b.columns;
}
