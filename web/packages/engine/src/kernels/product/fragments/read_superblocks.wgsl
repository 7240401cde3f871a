// What products of superblocks read of weights, whatever their form. The rule of a form is
// rule_q4s.wgsl or rule_kquants.wgsl: what a block of 32 columns adds to the sum of a superblock
// (`Sum`), a whole number of one or two parts, what a superblock has in the end (`Found`), and what
// that adds to an output (`Term`).

// A block of 32 columns of an input: two planes of bytes, columns 0 to 15 apart from 16 to 31, and
// the sums of these halves.
struct BlockInputs {
  low_a: vec4<u32>,
  low_b: vec4<u32>,
  high_a: vec4<u32>,
  high_b: vec4<u32>,
  halves: vec2<i32>,
}

// Two bytes of a block's row, signed.
fn multipliers_of(pair: u32) -> vec2<i32> {
  return (vec2<i32>(bitcast<i32>(pair)) << vec2(24u, 16u)) >> vec2(24u, 24u);
}

// Of the eight rows of a group, two bytes each.
fn pairs_of(group: u32, block: u32) -> vec4<u32> {
  return wscale[(group * op.blocks + block) * kBlockWords];
}

// Those of row n of a group, and of its neighbour. The word is read from where it stands: of a
// vector in registers each lane would pick its own part by branches, and wait for it at once.
fn two_pairs_at(group: u32, block: u32, n: u32) -> u32 {
  return wscale[(group * op.blocks + block) * kBlockWords][n >> 1u];
}

// Those of row n, in the lower 16 bits.
fn pair_at(group: u32, block: u32, n: u32) -> u32 {
  return two_pairs_at(group, block, n) >> (16u * (n & 1u));
}

// A whole number as f32, rounded once: WGSL leaves open how an i32 above 2^24 is.
fn rounded(total: i32) -> f32 {
  return f32(total >> 8u) * 256.0 + f32(total & 255);
}

// y behind a superblock of row n of a group of the matrix. `least`: minima_of it.
fn add_superblock(y: f32, sum: Sum, least: i32, group: u32, superblock: u32, n: u32,
                  first: u32) -> f32 {
  let begun = begun_term(found_of(sum, least));
  return add_term(y, scaled_term(begun, group, superblock, n, first));
}
