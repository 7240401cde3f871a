// What products of superblocks read beside weights, whatever their form. The rule of a form is
// rule_q4s.wgsl or rule_kquants.wgsl: what a block of 32 columns adds to the sum of a superblock
// (`Sum`), a whole number of one or two parts, and what a superblock adds to an output.
@group(0) @binding(7) var<storage, read_write> planes: array<vec4<u32>>;

// Two bytes of a block's row, signed.
fn multipliers_of(pair: u32) -> vec2<i32> {
  return (vec2<i32>(bitcast<i32>(pair)) << vec2(24u, 16u)) >> vec2(24u, 24u);
}

// Of the eight rows of a group, two bytes each.
fn pairs_of(group: u32, block: u32) -> vec4<u32> {
  return wscale[(group * op.blocks + block) * kBlockWords];
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

// A whole number as f32, rounded once: WGSL leaves open how an i32 above 2^24 is.
fn rounded(total: i32) -> f32 {
  return f32(total >> 8u) * 256.0 + f32(total & 255);
}

fn planes_inverse_rms(first: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return bitcast<f32>(planes[inverse_at(first)].x);
}
