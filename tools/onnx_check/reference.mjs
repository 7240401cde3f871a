// Reads safetensors files: an 8-byte length, a JSON header, then raw little-endian tensors.
import { readFileSync } from 'node:fs';

const arrays = {
  ...{ F32: Float32Array, F16: Uint16Array, BF16: Uint16Array },
  ...{ I64: BigInt64Array, I32: Int32Array },
};

const oneBits = new Uint32Array(1);
const oneFloat = new Float32Array(oneBits.buffer);

/** The value of a bf16, the upper half of a float's bits. */
export function bfloatToFloat(bits) {
  oneBits[0] = bits << 16;
  return oneFloat[0];
}

function valueOfHalf(half) {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const halves = Float32Array.from({ length: 65536 }, (_, half) => valueOfHalf(half));

export function halfToFloat(half) {
  return halves[half];
}

const numbers = { BF16: bfloatToFloat, F16: halfToFloat };

/** Returns { name: { dims, values } } with numbers for every tensor of `path`. */
export function readSafetensors(path) {
  const file = readFileSync(path);
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerBytes));
  const tensors = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const Values = arrays[entry.dtype];
    if (!Values) throw new Error(`${path}: tensor '${name}' has dtype ${entry.dtype}.`);
    const [begin, end] = entry.data_offsets;
    const bytes = file.subarray(8 + headerBytes + begin, 8 + headerBytes + end);
    const copy = new Uint8Array(bytes).buffer;
    const toNumber = numbers[entry.dtype] ?? Number;
    tensors[name] = { dims: entry.shape, values: Array.from(new Values(copy), toNumber) };
  }
  return tensors;
}
