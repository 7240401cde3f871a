// The block types of GGUF files, written from their definitions and used by no part of weft:
// `encode` makes a plain, not a clever, block of the values; `decode` says exactly (in f32) what a
// block stands for. Layouts: ggml's block_q4_0, block_q4_1, ..., block_q6_K, block_mxfp4.
import { bfloatToFloat, halfToFloat } from '../onnx_check/reference.mjs';

const f32 = Math.fround;

/** The nearest f16, as bits; `value` is within its normal range or zero. */
export function floatToHalf(value) {
  if (value === 0) return 0;
  const sign = value < 0 ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), -14);
  const fraction = Math.round((magnitude / 2 ** exponent) * 1024);
  // A subnormal has no hidden bit; a fraction of 2048 carries into the exponent by itself.
  return sign | (((exponent + 14) << 10) + fraction);
}

const clamp = (value, low, high) => Math.max(low, Math.min(high, Math.round(value)));
const extremeOf = (values) => values.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0);
const halfAt = (bytes, at) => halfToFloat(bytes.readUInt16LE(at));

/** 16 bytes: value j in the low nibble of byte j, value j + 16 in its high nibble. */
function putNibbles(bytes, at, q) {
  for (let j = 0; j < 16; ++j) bytes[at + j] = (q[j] & 15) | ((q[j + 16] & 15) << 4);
}
function getNibbles(bytes, at) {
  return Array.from({ length: 32 }, (_, i) =>
    i < 16 ? bytes[at + i] & 15 : bytes[at + i - 16] >> 4,
  );
}
function putFifthBits(bytes, at, q) {
  let bits = 0;
  for (let i = 0; i < 32; ++i) bits |= ((q[i] >> 4) & 1) << i;
  bytes.writeUInt32LE(bits >>> 0, at);
}
function getFifthBits(bytes, at) {
  const bits = bytes.readUInt32LE(at);
  return Array.from({ length: 32 }, (_, i) => ((bits >>> i) & 1) << 4);
}

/** d, then whole numbers around zero: Q4_0, Q5_0, Q8_0. */
function symmetric(bits) {
  const zero = bits === 8 ? 0 : 2 ** (bits - 1);
  const most = 2 ** (bits - 1) - 1;
  const byteCount = { 4: 18, 5: 22, 8: 34 }[bits];
  return {
    values: 32,
    bytes: byteCount,
    encode(values) {
      const bytes = Buffer.alloc(byteCount);
      const half = floatToHalf(bits === 8 ? Math.abs(extremeOf(values)) / most
                                          : extremeOf(values) / -zero);
      bytes.writeUInt16LE(half, 0);
      const d = halfToFloat(half);
      const q = values.map((x) => (d === 0 ? 0 : clamp(x / d, bits === 8 ? -most : -zero, most)));
      if (bits === 8) q.forEach((value, i) => bytes.writeInt8(value, 2 + i));
      if (bits === 5) putFifthBits(bytes, 2, q.map((value) => value + zero));
      if (bits < 8) putNibbles(bytes, byteCount - 16, q.map((value) => value + zero));
      return bytes;
    },
    decode(bytes) {
      const d = halfAt(bytes, 0);
      let q;
      if (bits === 8) q = Array.from({ length: 32 }, (_, i) => bytes.readInt8(2 + i));
      else q = getNibbles(bytes, byteCount - 16);
      if (bits === 5) {
        const high = getFifthBits(bytes, 2);
        q = q.map((value, i) => value | high[i]);
      }
      return q.map((value) => f32(d * (value - zero)));
    },
  };
}

/** d, m, then whole numbers from zero: Q4_1, Q5_1. */
function withMinimum(bits) {
  const byteCount = bits === 4 ? 20 : 24;
  const most = 2 ** bits - 1;
  return {
    values: 32,
    bytes: byteCount,
    encode(values) {
      const bytes = Buffer.alloc(byteCount);
      const least = Math.min(...values);
      bytes.writeUInt16LE(floatToHalf((Math.max(...values) - least) / most), 0);
      bytes.writeUInt16LE(floatToHalf(least), 2);
      const d = halfAt(bytes, 0);
      const m = halfAt(bytes, 2);
      const q = values.map((x) => (d === 0 ? 0 : clamp((x - m) / d, 0, most)));
      if (bits === 5) putFifthBits(bytes, 4, q);
      putNibbles(bytes, byteCount - 16, q);
      return bytes;
    },
    decode(bytes) {
      const d = halfAt(bytes, 0);
      const m = halfAt(bytes, 2);
      const high = bits === 5 ? getFifthBits(bytes, 4) : new Array(32).fill(0);
      return getNibbles(bytes, byteCount - 16).map((q, i) => f32(f32(d * (q | high[i])) + m));
    },
  };
}

/** d, dmin, eight 6-bit (scale, minimum), [fifth bits,] nibbles of 256: Q4_K, Q5_K. */
function superBlock(bits) {
  const byteCount = bits === 4 ? 144 : 176;
  const nibbles = byteCount - 128;
  const most = 2 ** bits - 1;
  const packScales = (bytes, scales, minimums) => {
    for (let j = 0; j < 4; ++j) {
      bytes[4 + j] = scales[j] | ((scales[j + 4] >> 4) << 6);
      bytes[8 + j] = minimums[j] | ((minimums[j + 4] >> 4) << 6);
      bytes[12 + j] = (scales[j + 4] & 15) | ((minimums[j + 4] & 15) << 4);
    }
  };
  const unpackScales = (bytes) => {
    const scales = [];
    const minimums = [];
    for (let j = 0; j < 4; ++j) {
      scales[j] = bytes[4 + j] & 63;
      minimums[j] = bytes[8 + j] & 63;
      scales[j + 4] = (bytes[12 + j] & 15) | ((bytes[4 + j] >> 6) << 4);
      minimums[j + 4] = (bytes[12 + j] >> 4) | ((bytes[8 + j] >> 6) << 4);
    }
    return { scales, minimums };
  };
  return {
    values: 256,
    bytes: byteCount,
    encode(values) {
      const bytes = Buffer.alloc(byteCount);
      const groups = Array.from({ length: 8 }, (_, j) => values.slice(32 * j, 32 * j + 32));
      const lows = groups.map((group) => Math.max(0, -Math.min(...group)));
      const steps = groups.map((group, j) => (Math.max(...group) + lows[j]) / most);
      bytes.writeUInt16LE(floatToHalf(Math.max(...steps) / 63), 0);
      bytes.writeUInt16LE(floatToHalf(Math.max(...lows) / 63), 2);
      const d = halfAt(bytes, 0);
      const m = halfAt(bytes, 2);
      const scales = steps.map((step) => (d === 0 ? 0 : clamp(step / d, 0, 63)));
      const minimums = lows.map((low) => (m === 0 ? 0 : clamp(low / m, 0, 63)));
      packScales(bytes, scales, minimums);
      groups.forEach((group, j) => {
        const step = d * scales[j];
        group.forEach((x, i) => {
          const q = step === 0 ? 0 : clamp((x + m * minimums[j]) / step, 0, most);
          bytes[nibbles + 32 * (j >> 1) + i] |= (q & 15) << (j & 1 ? 4 : 0);
          if (bits === 5) bytes[16 + i] |= (q >> 4) << j;
        });
      });
      return bytes;
    },
    decode(bytes) {
      const { scales, minimums } = unpackScales(bytes);
      const d = halfAt(bytes, 0);
      const m = halfAt(bytes, 2);
      return Array.from({ length: 256 }, (_, at) => {
        const j = at >> 5;
        const i = at & 31;
        let q = (bytes[nibbles + 32 * (j >> 1) + i] >> (j & 1 ? 4 : 0)) & 15;
        if (bits === 5) q |= ((bytes[16 + i] >> j) & 1) << 4;
        return f32(f32(f32(d * scales[j]) * q) - f32(m * minimums[j]));
      });
    },
  };
}

/** 128 bytes of low nibbles, 64 of high pairs, 16 scales, d. */
const q6K = {
  values: 256,
  bytes: 210,
  // Where value `at` has its low nibble and its high pair of bits.
  place(at) {
    const half = at >> 7;
    const quarter = (at >> 5) & 3;
    const i = at & 31;
    return {
      low: 64 * half + 32 * (quarter & 1) + i,
      lowShift: quarter >> 1 ? 4 : 0,
      high: 128 + 32 * half + i,
      highShift: 2 * quarter,
    };
  },
  encode(values) {
    const bytes = Buffer.alloc(210);
    const groups = Array.from({ length: 16 }, (_, j) => values.slice(16 * j, 16 * j + 16));
    const steps = groups.map((group) => extremeOf(group) / -32);
    bytes.writeUInt16LE(floatToHalf(Math.abs(extremeOf(steps)) / 127), 208);
    const d = halfAt(bytes, 208);
    groups.forEach((group, j) => {
      const scale = d === 0 ? 0 : clamp(steps[j] / d, -128, 127);
      bytes.writeInt8(scale, 192 + j);
      group.forEach((x, i) => {
        const q = scale === 0 ? 32 : clamp(x / (d * scale), -32, 31) + 32;
        const { low, lowShift, high, highShift } = this.place(16 * j + i);
        bytes[low] |= (q & 15) << lowShift;
        bytes[high] |= (q >> 4) << highShift;
      });
    });
    return bytes;
  },
  decode(bytes) {
    const d = halfAt(bytes, 208);
    return Array.from({ length: 256 }, (_, at) => {
      const { low, lowShift, high, highShift } = this.place(at);
      const q = ((bytes[low] >> lowShift) & 15) | (((bytes[high] >> highShift) & 3) << 4);
      return f32(f32(d * bytes.readInt8(192 + (at >> 4))) * (q - 32));
    });
  },
};

const e2m1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
/** A power of two (OCP's e8m0) and 32 values of e2m1. */
const mxfp4 = {
  values: 32,
  bytes: 17,
  encode(values) {
    const bytes = Buffer.alloc(17);
    const most = Math.abs(extremeOf(values));
    bytes[0] = most === 0 ? 0 : Math.max(0, Math.floor(Math.log2(most)) - 2 + 127);
    const scale = 2 ** (bytes[0] - 127);
    const q = values.map((x) => {
      const wanted = Math.abs(x) / scale;
      let best = 0;
      e2m1.forEach((value, i) => {
        if (Math.abs(value - wanted) < Math.abs(e2m1[best] - wanted)) best = i;
      });
      return best | (x < 0 ? 8 : 0);
    });
    putNibbles(bytes, 1, q);
    return bytes;
  },
  decode(bytes) {
    const scale = 2 ** (bytes[0] - 127);
    return getNibbles(bytes, 1).map((q) => f32((q & 8 ? -1 : 1) * e2m1[q & 7] * scale));
  },
};

/** A type of single values, that `write` puts to a place and `read` takes from there. */
function plain(bytes, write, read) {
  return { values: 1, bytes, write, read };
}

const oneFloat = new Float32Array(1);
const oneBits = new Uint32Array(oneFloat.buffer);
function floatToBfloat(x) {
  oneFloat[0] = x;
  const bits = oneBits[0];
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** { name: { number, values, bytes, encode(values) -> Buffer, decode(Buffer) -> values } } */
export const blockTypes = {
  F32: { number: 0, ...plain(4, (b, i, x) => b.writeFloatLE(x, i), (b, i) => b.readFloatLE(i)) },
  F16: {
    number: 1,
    ...plain(2, (b, i, x) => b.writeUInt16LE(floatToHalf(x), i), halfAt),
  },
  BF16: {
    number: 30,
    ...plain(2, (b, i, x) => b.writeUInt16LE(floatToBfloat(x), i),
      (b, i) => bfloatToFloat(b.readUInt16LE(i))),
  },
  Q4_0: { number: 2, ...symmetric(4) },
  Q4_1: { number: 3, ...withMinimum(4) },
  Q5_0: { number: 6, ...symmetric(5) },
  Q5_1: { number: 7, ...withMinimum(5) },
  Q8_0: { number: 8, ...symmetric(8) },
  Q4_K: { number: 12, ...superBlock(4) },
  Q5_K: { number: 13, ...superBlock(5) },
  Q6_K: { number: 14, ...q6K },
  MXFP4: { number: 39, ...mxfp4 },
};

/** All values of a tensor as blocks. */
export function encodeTensor(type, values) {
  const { values: count, bytes: size, encode, write } = blockTypes[type];
  const bytes = Buffer.alloc(Math.ceil(values.length / count) * size);
  if (write) {
    for (let i = 0; i < values.length; ++i) write(bytes, i * size, values[i]);
    return bytes;
  }
  for (let i = 0; i * count < values.length; ++i) {
    const own = Array.from(values.slice(i * count, (i + 1) * count));
    bytes.set(encode.call(blockTypes[type], own), i * size);
  }
  return bytes;
}

/** The values that blocks stand for. */
export function decodeTensor(type, bytes) {
  const { values: count, bytes: size, decode, read } = blockTypes[type];
  const values = new Float32Array((bytes.length / size) * count);
  if (read) {
    for (let i = 0; i < values.length; ++i) values[i] = read(bytes, i * size);
    return values;
  }
  for (let i = 0; i * size < bytes.length; ++i) {
    values.set(decode.call(blockTypes[type], bytes.subarray(i * size, (i + 1) * size)), i * count);
  }
  return values;
}
