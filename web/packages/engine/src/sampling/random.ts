// Counter-based randomness: f(seed, position, draw), the same numbers as src/base/random.h.

const kMask = 0xffffffffn;

// Philox-4x32-10 (Salmon et al., 2011), words 0 and 1 of the result.
function philox(seed: bigint, position: number, draw: number): [number, number] {
  let [a, b, c, d] = [BigInt(position) & kMask, BigInt(position) >> 32n, BigInt(draw), 0n];
  let [key0, key1] = [seed & kMask, (seed >> 32n) & kMask];
  for (let round = 0; round < 10; ++round) {
    const product0 = 0xd2511f53n * a;
    const product1 = 0xcd9e8d57n * c;
    [a, b, c, d] = [
      (product1 >> 32n) ^ b ^ key0,
      product1 & kMask,
      (product0 >> 32n) ^ d ^ key1,
      product0 & kMask,
    ];
    key0 = (key0 + 0x9e3779b9n) & kMask;
    key1 = (key1 + 0xbb67ae85n) & kMask;
  }
  return [Number(a), Number(b)];
}

// A number in [0, 1) with 53 bits.
export function counterDouble(seed: bigint, position: number, draw: number): number {
  const [high, low] = philox(seed, position, draw);
  return (high * 2 ** 21 + (low >>> 11)) / 2 ** 53;
}
