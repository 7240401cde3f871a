// The rule of q4s (docs/decisions/0026): a weight is S * m * (q - 8) with a whole multiplier m for
// 16 columns and S for a superblock of 256, an input is s * x with x of 16 bits. T is the exact sum
// of m
// * (q - 8) * x over a superblock, and
//   y = fma over superblocks rising, from +0: y = fma(f32(T), S * s, y)
// |T| is below 2^30, so 32 columns, or all of them, may be added up in any order.
@group(0) @binding(7) var<storage, read_write> planes: array<vec4<u32>>;

// Two bytes of a block's row: the multipliers of its halves.
fn multipliers_of(pair: u32) -> vec2<i32> {
  return (vec2<i32>(bitcast<i32>(pair)) << vec2(24u, 16u)) >> vec2(24u, 24u);
}

// The sums of a block's halves.
fn half_sums(first: u32, block: u32) -> vec2<i32> {
  let both = planes[sums_at(first) + (block >> 1u)];
  return bitcast<vec2<i32>>(select(both.xy, both.zw, (block & 1u) == 1u));
}

fn input_scale(first: u32, superblock: u32) -> f32 {
  let both = planes[scales_at(first) + (superblock >> 1u)];
  return bitcast<f32>(select(both.x, both.z, (superblock & 1u) == 1u));
}

// S of row n of a group of the matrix.
fn weight_scale(group: u32, superblock: u32, n: u32) -> f32 {
  let four = wscale[(op.zero_base >> 2u) + group * superblocks() + superblock];
  let pair = unpack2x16float(four[n >> 1u]);
  return select(pair.x, pair.y, (n & 1u) == 1u);
}

// f32(T), rounded once: WGSL leaves open how an i32 above 2^24 is.
fn rounded(total: i32) -> f32 {
  return f32(total >> 8u) * 256.0 + f32(total & 255);
}

fn planes_inverse_rms(first: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return bitcast<f32>(planes[inverse_at(first)].x);
}
