// As much of protocol buffers and half floats as writing a model takes; no dependencies.

function varint(value) {
  const bytes = [];
  let left = BigInt(value);
  while (left > 127n) {
    bytes.push(Number(left & 127n) | 128);
    left >>= 7n;
  }
  bytes.push(Number(left));
  return Buffer.from(bytes);
}

// A field of length and bytes: text, bytes or a message made by message().
export function bytesField(number, value) {
  const bytes = typeof value === "string" ? Buffer.from(value) : value;
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

export function intField(number, value) {
  return Buffer.concat([varint(number << 3), varint(value)]);
}

export function floatField(number, value) {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([varint((number << 3) | 5), bytes]);
}

export const message = (...fields) => Buffer.concat(fields.flat());

// Half floats of finite values below 65,504; what is tiny becomes zero.
export function toHalf(value) {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0];
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 255) - 112;
  if (exponent <= 0) return sign;
  return sign | (((exponent << 10) | ((bits >>> 13) & 1023)) + ((bits >>> 12) & 1));
}
