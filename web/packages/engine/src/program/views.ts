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

// Values are rounded to multiples of `step`, at most `limit` of them, before they are added; a step
// of 0 rounds nothing (src/program/views.h).
export interface SumGrid {
  readonly step: number; // a power of two
  readonly limit: number; // a whole number, at most 2^22
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
