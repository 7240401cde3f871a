// Weights of test checkpoints by one rule, so that the repository stores seeds instead of bytes.
// The same rule stands in tools/references/seeded.py and src/tensor/seeded_values_testing.h;
// tests/data/seeded.json holds values that all three must give.
//
//   mix(x)    x ^= x >> 16;  x *= 0x85EBCA6B;  x ^= x >> 13;  x *= 0xC2B2AE35;  x ^= x >> 16
//   u(i)      (mix(seed + 0x9E3779B9 * (i + 1)) >> 8) / 2^24        all in 32 bits, u in [0, 1)
//   value(i)  low + (high - low) * u(i)                             in doubles, then rounded
//
// A u8 value is floor(low + (high - low + 1) * u): low and high are both reached. The mixing is the
// end of MurmurHash3; values are uniform, since logarithms differ between languages.

/** Bytes of one value of each type. */
export const kValueBytes = { F32: 4, F16: 2, BF16: 2, U8: 1 };

function mix(x) {
  x ^= x >>> 16;
  x = Math.imul(x, 0x85ebca6b);
  x ^= x >>> 13;
  x = Math.imul(x, 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** Value `index` of a run before it is rounded to its type. */
export function uniform(seed, index) {
  return (mix((seed + Math.imul(0x9e3779b9, index + 1)) >>> 0) >>> 8) / 2 ** 24;
}

/** FNV-1a of a name in 32 bits: the seed of the tensor that has this name. */
export function seedOf(name) {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

const float = new Float32Array(1);
const floatBits = new Uint32Array(float.buffer);

/** The nearest bf16, ties to even. */
function bf16Bits(value) {
  float[0] = value;
  const bits = floatBits[0];
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** The nearest f16, ties to even, of a value below 65,504; those below 2^-14 become subnormal. */
function f16Bits(value) {
  float[0] = value;
  const magnitude = Math.abs(float[0]);
  const sign = floatBits[0] >>> 31 ? 0x8000 : 0;
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude || 2 ** -14)));
  const steps = magnitude / 2 ** (exponent - 10);
  const floor = Math.floor(steps);
  const rest = steps - floor;
  const odd = floor % 2 === 1;
  const rounded = rest > 0.5 || (rest === 0.5 && odd) ? floor + 1 : floor;
  return sign + (exponent + 14) * 1024 + rounded;
}

const writers = {
  F32: (view, at, value) => view.setFloat32(at, value, true),
  F16: (view, at, value) => view.setUint16(at, f16Bits(value), true),
  BF16: (view, at, value) => view.setUint16(at, bf16Bits(value), true),
  U8: (view, at, value) => view.setUint8(at, Math.floor(value)),
};

/** The bytes of a run {type, count, seed, low, high}, little-endian. */
export function runBytes({ type, count, seed, low, high }) {
  const size = kValueBytes[type];
  if (size === undefined) {
    throw new Error(`a run of ${type}; known are ${Object.keys(kValueBytes).join(', ')}`);
  }
  const bytes = Buffer.alloc(count * size);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const span = type === 'U8' ? high - low + 1 : high - low;
  const write = writers[type];
  for (let i = 0; i < count; ++i) write(view, i * size, low + span * uniform(seed, i));
  return bytes;
}
