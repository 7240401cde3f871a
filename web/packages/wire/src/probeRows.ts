// Rows that this device computes to show that it computes what it should. The formula stands in
// src/wire/probe_rows.h, the other implementation; tests/golden/probe_rows.json has both.

export const kMaxProbeRows = 16;
export const kMaxProbes = 4;
const kProbeSamples = 32;

function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

// [rows, columns]
export function probeRows(seed: bigint, rows: number, columns: number): Float32Array<ArrayBuffer> {
  const low = Number(seed & 0xffffffffn);
  const high = Number((seed >> 32n) & 0xffffffffn);
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      const at = low + Math.imul(row, 0x85ebca6b) + Math.imul(column + 1, 0x9e3779b1);
      const h = mix(mix(at | 0) ^ high);
      values[row * columns + column] = ((h & 127) - 64) / 1024;
    }
  }
  return values;
}

// The columns of a row whose values are told.
export function probeColumns(columns: number): number[] {
  const count = Math.min(kProbeSamples, columns);
  return Array.from({ length: count }, (_, i) => Math.floor((i * columns) / count));
}
