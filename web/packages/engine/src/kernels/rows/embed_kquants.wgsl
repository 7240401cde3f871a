// A row of a table in q4k, q5k or q6k: a value is d * s * q - e * m, in q6k d * s * (q - 32). Both
// products are exact in f32, so that a value is rounded once. s * q is a whole number: it has no
// negative zero. rule_kquants.wgsl says where levels,
// s, m, d and e lie.
const kBlockWords = 1u + 2u * kUpperBits;  // vec4 of a block's eight rows
const kHasMinima = kUpperBits != 2u;

struct TableBlock {
  scale: f32,              // d
  multipliers: vec2<i32>,  // s of columns 0 to 15, and of 16 to 31
  minimum: f32,            // e * m
}

fn words_at(n: u32, j: u32) -> u32 {
  return ((n >> 3u) * op.blocks + j) * kBlockWords;
}

// Block j of row n of the slab.
fn block_of(n: u32, j: u32) -> TableBlock {
  let pair = wscale[words_at(n, j)][(n & 7u) >> 1u] >> (16u * (n & 1u));
  let by = (vec2<i32>(bitcast<i32>(pair)) << vec2(24u, 16u)) >> vec2(24u, 24u);
  let superblock = (n >> 3u) * (op.blocks >> 3u) + (j >> 3u);
  let halves = wscale[(op.zero_base >> 2u) + 2u * superblock + ((n >> 2u) & 1u)][n & 3u];
  let d = from_half(halves & 0xffffu);
  if (!kHasMinima) {
    return TableBlock(d, by, 0.0);
  }
  return TableBlock(d, by.xx, from_half(halves >> 16u) * f32(by.y));
}

// The bits above the low four of columns 8 w to 8 w + 3 and, from 16 bits on, of the next four.
// Two columns of byte k of the levels are neighbours in byte k of the word.
fn upper_levels(word: u32, w: u32) -> vec4<u32> {
  let first = 2u * kUpperBits * (w & (select(4u, 2u, kUpperBits == 2u) - 1u));
  let shifts = first + vec4(0u, kUpperBits, 8u, 8u + kUpperBits);
  return ((vec4<u32>(word) >> shifts) & vec4((1u << kUpperBits) - 1u)) << vec4(4u);
}

// The values of its columns 8 w to 8 w + 7.
fn values_of(block: TableBlock, n: u32, j: u32, w: u32) -> Eight {
  let word = wdata[n * op.blocks + j][w];
  let shifts = vec4(0u, 4u, 8u, 12u);
  var low = (vec4<u32>(word) >> shifts) & vec4(15u);
  var high = (vec4<u32>(word >> 16u) >> shifts) & vec4(15u);
  if (kUpperBits > 0u) {
    let half = select(0u, w >> 1u, kUpperBits == 2u);
    let upper = wscale[words_at(n, j) + 1u + 2u * half + ((n >> 2u) & 1u)][n & 3u];
    low |= upper_levels(upper, w);
    high |= upper_levels(upper >> 16u, w);
  }
  let zero = vec4(select(32, 0, kHasMinima));
  let s = select(block.multipliers.x, block.multipliers.y, w > 1u);
  return Eight(block.scale * vec4<f32>(s * (vec4<i32>(low) - zero)) - block.minimum,
               block.scale * vec4<f32>(s * (vec4<i32>(high) - zero)) - block.minimum);
}
