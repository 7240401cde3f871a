// Eight inputs as integers of 16 bits with one scale, their bytes in two planes: what dot4I8Packed
// and dot4U8Packed take. The sums of integers are exact, in any order. Off by at most 2^-16 of the
// largest of the eight.
struct Input {
  low: vec2<u32>,   // unsigned low bytes: of even and odd columns (q4), of the first and last four
  high: vec2<u32>,  // signed high bytes
  sum: i32,
  scale: f32,
}

const kMagic = 12582912.0;  // 1.5 * 2^23: an integer added to it stands in the low bits
const kMagicBits = 0x4b400000u;
const kBytes = 0x00ff00ffu;

struct Planes {
  low: u32,
  high: u32,
}

// The two low bytes of a, b, c, d.
fn planes_of(a: u32, b: u32, c: u32, d: u32) -> Planes {
  let ac = (a & 0xffffu) | (c << 16u);
  let bd = (b & 0xffffu) | (d << 16u);
  return Planes((ac & kBytes) | ((bd << 8u) & ~kBytes), ((ac >> 8u) & kBytes) | (bd & ~kBytes));
}

fn prepared(x: Eight) -> Input {
  let most = max(abs(x.low), abs(x.high));
  let largest = max(max(most.x, most.y), max(most.z, most.w));
  let zeros = fma(x.low, vec4<f32>(0.0), x.high * 0.0);  // not finite if an input is not
  let exponent = clamp(bitcast<u32>(largest) >> 23u, 40u, 254u);
  let factor = bitcast<f32>((268u - exponent) << 23u) * 0.999969482421875;  // 1 - 2^-15
  let low = bitcast<vec4<u32>>(fma(x.low, vec4<f32>(factor), vec4<f32>(kMagic)));
  let high = bitcast<vec4<u32>>(fma(x.high, vec4<f32>(factor), vec4<f32>(kMagic)));
  let total = low + high;
  let sum = bitcast<i32>(total.x + total.y + total.z + total.w - 8u * kMagicBits);
  let scale = bitcast<f32>((exponent - 14u) << 23u) * 1.000030518509476 +
    (zeros.x + zeros.y + zeros.z + zeros.w);
  let a = select_planes(low, high, true);
  let b = select_planes(low, high, false);
  return Input(vec2(a.low, b.low), vec2(a.high, b.high), sum, scale);
}
