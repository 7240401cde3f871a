// Canonical keys and values (f16 bits, [k|v][position][kv head][head column], without v where they
// lie in keys) from and to the words of pages. Positions are counted from the first page's first.
import { f16ToF32, f32ToF16 } from "../base/half.ts";
import { kPagePositions } from "./pages.ts";
import { pageBytes } from "./pools.ts";
import type { PageShape } from "./pools.ts";

// Where a value lies in the words of all pages: word, and for f16 which half of it.
function place(
  shape: PageShape,
  isValue: boolean,
  position: number,
  head: number,
  column: number,
): { word: number; half: number } {
  const { kvHeads, headColumns, isF32 } = shape;
  const pairs = (headColumns + 1) >> 1;
  const page = Math.floor(position / kPagePositions) * (pageBytes(shape) / 4);
  const slot = position % kPagePositions;
  const pair = column >> 1;
  const inPlane = isValue
    ? kPagePositions * kvHeads * pairs + (head * kPagePositions + slot) * pairs + pair
    : (head * pairs + pair) * kPagePositions + slot;
  const plane = pageBytes(shape) / 8; // f32: of the first values of pairs, in words
  const isOdd = column % 2;
  return { word: page + inPlane + (isF32 ? isOdd * plane : 0), half: isF32 ? 0 : isOdd };
}

type Visit = (index: number, word: number, half: number) => void;

function forEach(shape: PageShape, first: number, count: number, visit: Visit): void {
  let index = 0;
  for (const isValue of shape.valuesInKeys ? [false] : [false, true]) {
    for (let position = first; position < first + count; ++position) {
      for (let head = 0; head < shape.kvHeads; ++head) {
        for (let column = 0; column < shape.headColumns; ++column) {
          const { word, half } = place(shape, isValue, position, head, column);
          visit(index++, word, half);
        }
      }
    }
  }
}

export function canonicalLength(shape: PageShape, count: number): number {
  return (shape.valuesInKeys ? 1 : 2) * count * shape.kvHeads * shape.headColumns;
}

export function toCanonical(
  shape: PageShape,
  words: Uint32Array<ArrayBuffer>,
  first: number,
  count: number,
): Uint16Array {
  const length = canonicalLength(shape, count);
  const out = new Uint16Array(length);
  if (!shape.isF32) {
    const halves = new Uint16Array(words.buffer);
    forEach(shape, first, count, (index, word, half) => {
      out[index] = halves[2 * word + half]!;
    });
    return out;
  }
  const floats = new Float32Array(words.buffer);
  const values = new Float32Array(length);
  forEach(shape, first, count, (index, word) => {
    values[index] = floats[word]!;
  });
  f32ToF16(values, out);
  return out;
}

// Writes canonical values into the words of pages.
export function fromCanonical(
  shape: PageShape,
  words: Uint32Array<ArrayBuffer>,
  first: number,
  count: number,
  bits: Uint16Array,
): void {
  if (!shape.isF32) {
    const halves = new Uint16Array(words.buffer);
    forEach(shape, first, count, (index, word, half) => {
      halves[2 * word + half] = bits[index]!;
    });
    return;
  }
  const floats = new Float32Array(words.buffer);
  const values = new Float32Array(bits.length);
  f16ToF32(bits, values);
  forEach(shape, first, count, (index, word) => {
    floats[word] = values[index]!;
  });
}
