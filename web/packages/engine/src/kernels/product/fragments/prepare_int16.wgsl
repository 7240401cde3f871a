// A block of 32 inputs as integers of 16 bits with one scale, in two planes of signed bytes: an
// integer is 256 high + low. Products of a block with dot4I8Packed are exact, in any order. An
// input is off by at most 2^-15 of the largest of its block.
//
// For instance x = (1, -0.5, 0, ...). The largest is 1 = 2^0, so the factor is 2^14 * 0.99606 =
// 16319.5 and the integers are 16320 and -8160; the scale is 1 / 16319.5. As bytes they are 16320 =
// 256 * 64 - 64 and -8160 = 256 * -32 + 32. With q4 weights q = (9, 6), whose zero point is 8, low
// and high dots give 256 (9 * 64 - 6 * 32) + (-9 * 64 + 6 * 32) = 97920; the zero point takes 8 *
// (16320 - 8160) = 65280 off, which leaves 32640. Times the scale this is 2.00006, and (9 - 8) * 1
// + (6 - 8) * -0.5 is 2.
//
// An f32 is made an integer by adding 1.5 * 2^23: its unit in the last place is then 1, so the
// addition rounds to nearest, and the low bits of the sum are the integer in two's complement.
struct Input {
  low_a: vec4<u32>,  // columns 0 to 15, in the order of the weights' words
  low_b: vec4<u32>,  // 16 to 31
  high_a: vec4<u32>,
  high_b: vec4<u32>,
  sum: f32,  // of the integers; not finite if an input is not
  scale: f32,
}

// Eight columns of it: two words of each plane.
struct Piece {
  low: vec2<u32>,
  high: vec2<u32>,
  sum: f32,
}

// 1.5 * 2^23: an integer added to it stands in the low bits. And 128, so that bytes are signed.
const kMagic = 12583040.0;
const kMagicBits = 0x4b400080u;
const kBytes = 0x00ff00ffu;
const kSigns = 0x80808080u;
const kHeadroom = 0.996063232421875;  // 32639 / 32768: with 128 more it still has 16 bits
const kInverseHeadroom = 1.003952326971;

fn largest_of(x: Eight) -> f32 {
  let most = max(abs(x.low), abs(x.high));
  return max(max(most.x, most.y), max(most.z, most.w));
}

fn exponent_of(largest: f32) -> u32 {
  return clamp(bitcast<u32>(largest) >> 23u, 40u, 254u);
}

fn scale_of(exponent: u32, sum: f32) -> f32 {
  return fma(sum, 0.0, bitcast<f32>((exponent - 14u) << 23u) * kInverseHeadroom);
}

// The two low bytes of a, b, c, d: first the lower ones, as signed bytes.
fn planes_of(a: u32, b: u32, c: u32, d: u32) -> vec2<u32> {
  let ac = (a & 0xffffu) | (c << 16u);
  let bd = (b & 0xffffu) | (d << 16u);
  return vec2(((ac & kBytes) | ((bd << 8u) & ~kBytes)) ^ kSigns,
              ((ac >> 8u) & kBytes) | (bd & ~kBytes));
}

// The exponent is that of the largest of the block.
fn piece_of(x: Eight, exponent: u32) -> Piece {
  let zeros = fma(x.low, vec4<f32>(0.0), x.high * 0.0);  // not finite if an input is not
  let factor = vec4<f32>(bitcast<f32>((268u - exponent) << 23u) * kHeadroom);
  let low = bitcast<vec4<u32>>(fma(x.low, factor, vec4<f32>(kMagic)));
  let high = bitcast<vec4<u32>>(fma(x.high, factor, vec4<f32>(kMagic)));
  let total = low + high;
  let sum = f32(bitcast<i32>(total.x + total.y + total.z + total.w - 8u * kMagicBits));
  let a = first_planes(low, high);
  let b = last_planes(low, high);
  return Piece(vec2(a.x, b.x), vec2(a.y, b.y), sum + (zeros.x + zeros.y + zeros.z + zeros.w));
}

fn block_of(a: Piece, b: Piece, c: Piece, d: Piece, exponent: u32) -> Input {
  let sum = (a.sum + b.sum) + (c.sum + d.sum);
  return Input(vec4(a.low, b.low), vec4(c.low, d.low), vec4(a.high, b.high), vec4(c.high, d.high),
               sum, scale_of(exponent, sum));
}

fn exponent_of_block(a: Eight, b: Eight, c: Eight, d: Eight) -> u32 {
  return exponent_of(max(max(largest_of(a), largest_of(b)), max(largest_of(c), largest_of(d))));
}

fn prepared(a: Eight, b: Eight, c: Eight, d: Eight) -> Input {
  let exponent = exponent_of_block(a, b, c, d);
  return block_of(piece_of(a, exponent), piece_of(b, exponent), piece_of(c, exponent),
                  piece_of(d, exponent), exponent);
}

fn dot_of_four(w: vec4<u32>, x: vec4<u32>) -> i32 {
  return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) +
    dot4I8Packed(w.w, x.w);
}

fn integer_dot(w: Block, x: Input) -> i32 {
  let low = dot_of_four(w.a, x.low_a) + dot_of_four(w.b, x.low_b);
  let high = dot_of_four(w.a, x.high_a) + dot_of_four(w.b, x.high_b);
  return (high << 8u) + low;
}

// The sum of a block's products in units of the two scales, rounded once at most.
fn block_dot(w: Block, zero: u32, x: Input) -> f32 {
  return without_zero(f32(integer_dot(w, x)), f32(zero & 15u), x.sum);
}
