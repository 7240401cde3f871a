// Conversions of whole arrays from f16 and bf16 to f32 and back. They round to nearest even,
// infinities and NaNs kept, the same bits as src/tensor/half.h. Both are read and written as their
// bits.

interface Float16Constructor {
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): Float16View;
}
type Float16View = ArrayLike<number> & { set(values: ArrayLike<number>): void };

// Newer than the ES version we compile for; a browser that has it converts natively.
function native(): Float16Constructor | undefined {
  return (globalThis as { Float16Array?: Float16Constructor }).Float16Array;
}

let f32OfF16: Uint32Array | null = null; // bits of each of the 65536 values

function f16Table(): Uint32Array {
  if (f32OfF16) return f32OfF16;
  const table = new Uint32Array(65536);
  const floats = new Float32Array(table.buffer);
  for (let half = 0; half < 0x8000; ++half) {
    const exponent = half >> 10;
    const fraction = half & 0x3ff;
    if (exponent === 0) floats[half] = fraction * 2 ** -24;
    else table[half] = ((exponent === 31 ? 0xff : exponent + 112) << 23) | (fraction << 13);
    table[half | 0x8000] = (table[half] ?? 0) | 0x80000000;
  }
  f32OfF16 = table;
  return table;
}

// REQUIRES: both arrays have one length.
export function f16ToF32(halves: Uint16Array, out: Float32Array): void {
  const Float16 = native();
  if (Float16) {
    out.set(new Float16(halves.buffer, halves.byteOffset, halves.length));
    return;
  }
  f16ToF32ByTable(halves, out);
}

export function f16ToF32ByTable(halves: Uint16Array, out: Float32Array): void {
  const table = f16Table();
  const bits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < halves.length; ++i) bits[i] = table[halves[i]!]!;
}

export function f32ToF16(values: Float32Array, out: Uint16Array): void {
  const Float16 = native();
  if (Float16) {
    new Float16(out.buffer, out.byteOffset, out.length).set(values);
    return;
  }
  f32ToF16ByBits(values, out);
}

export function f32ToF16ByBits(values: Float32Array, out: Uint16Array): void {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; ++i) {
    const word = bits[i]!;
    const sign = (word >>> 16) & 0x8000;
    const magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) out[i] = sign | 0x7e00;
    else if (magnitude >= 0x477ff000) out[i] = sign | 0x7c00; // rounds past 65504
    else if (magnitude < 0x38800000) out[i] = sign | subnormal(Math.abs(values[i]!));
    else out[i] = sign | ((magnitude + 0xfff + ((magnitude >>> 13) & 1) - 0x38000000) >>> 13);
  }
}

// Below 2^-14 a half is a multiple of 2^-24: the float adder rounds to it, ties to even.
function subnormal(magnitude: number): number {
  return (Math.fround(magnitude + 0.5) - 0.5) * 2 ** 24;
}

export function bf16ToF32(halves: Uint16Array, out: Float32Array): void {
  const bits = new Uint32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < halves.length; ++i) bits[i] = halves[i]! << 16;
}

export function f32ToBf16(values: Float32Array, out: Uint16Array): void {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; ++i) {
    const word = bits[i]!;
    if ((word & 0x7fffffff) > 0x7f800000) out[i] = (word >>> 16) | 0x40;
    else out[i] = (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
}
