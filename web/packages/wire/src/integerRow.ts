// Rows of activations as whole numbers, the counterpart of src/tensor/integer_row.h: an exponent
// for every 256 columns, then 16 bits for each value. What is read is a row of f32 of which integer
// products make the very same whole numbers.
//
//   a row of 300 columns    u8 e of columns 0 to 255, u8 e of 256 to 299, then i16 x of each
//
// Example: e = 127 and x = (16320, -8160) are read as (1.0000306, -0.5000153).
import { WireError } from "./error.ts";

const kSuperblock = 256;
const kLeastExponent = 40;
const kMostExponent = 254;
const kMostInteger = 32639;
const kInverseHeadroom = Math.fround(1.003952326971);

const superblocksOf = (columns: number): number => Math.ceil(columns / kSuperblock);

export function integerRowBytes(columns: number): number {
  return superblocksOf(columns) + 2 * columns;
}

// Throws WireError where such a row says what nobody could have written.
export function checkIntegerRow(bytes: Uint8Array, columns: number): void {
  const superblocks = superblocksOf(columns);
  for (let i = 0; i < superblocks; ++i) {
    if (bytes[i]! < kLeastExponent || bytes[i]! > kMostExponent) {
      throw new WireError(
        `Superblock ${i} of a row has exponent ${bytes[i]}, expected ${kLeastExponent} to ` +
          `${kMostExponent}.`,
      );
    }
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset + superblocks, 2 * columns);
  let most = 0;
  for (let i = 0; i < columns; ++i) most = Math.max(most, Math.abs(view.getInt16(2 * i, true)));
  if (most > kMostInteger) {
    throw new WireError(
      `A row has a whole number of ${most}, expected at most ${kMostInteger}.`,
    );
  }
}

// A row that checkIntegerRow lets pass; `row` has its columns.
export function readIntegerRow(bytes: Uint8Array, row: Float32Array): void {
  const superblocks = superblocksOf(row.length);
  const view = new DataView(bytes.buffer, bytes.byteOffset + superblocks, 2 * row.length);
  for (let i = 0; i < row.length; ++i) {
    const power = 2 ** (bytes[Math.floor(i / kSuperblock)]! - 127);
    // The largest whole number can be read as a value that has the next exponent. It is read as
    // the one below.
    const most = power * (2 - 2 ** -23);
    const value = Math.fround(view.getInt16(2 * i, true) * (power / 2 ** 14) * kInverseHeadroom);
    row[i] = Math.min(Math.max(value, -most), most);
  }
}
