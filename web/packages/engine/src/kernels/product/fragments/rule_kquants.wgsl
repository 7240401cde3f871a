// The rule of q4k, q5k and q6k (src/kernels/integer_rows.h): a weight is d * s * q - e * m, in q6k
// d * s * (q - 32), with whole s and m of 32 columns (q6k: s of 16), an input is s * x with x = 256
// * high + low. H and L are the exact sums of s * q * high and of s * q * low over a superblock, B
// is that of m * x, and
//   y = fma over superblocks rising, from +0: y = fma(f32(H), 256 * (d * s), y), then
//   y = fma(f32(L), d * s, y), and but for q6k y = fma(-f32(B), e * s, y)
// H, L and B are below 2^30, so columns may be added up in any order.
//
// In `wscale` a group's block has s and m of its eight rows (q6k: s of both halves), a byte each,
// and then the upper bits of levels: kUpperBits a level, 32 bits a word. Byte k of a word has, from
// its lowest bits on, those of byte k of the levels' words.
alias Sum = vec2<i32>;  // of H, and of L
const kHasMinima = kUpperBits != 2u;
const kUpperWords = 2u * kUpperBits;  // vec4 of a block's eight rows
const kBlockWords = 1u + kUpperWords;
const kHighBits = 0x80808080u;

// Bits `shift` on of every byte, above the low four.
fn upper_bits(words: u32, shifts: vec4<u32>) -> vec4<u32> {
  let mask = vec4<u32>(0x01010101u * ((1u << kUpperBits) - 1u));
  return ((vec4<u32>(words) >> shifts) & mask) << vec4<u32>(4u);
}

// q - 32 of levels of six bits, as signed bytes; no subtraction reaches into the next byte.
fn centred(q: vec4<u32>) -> vec4<u32> {
  return ((q | vec4<u32>(kHighBits)) - vec4<u32>(0x20202020u)) ^ vec4<u32>(kHighBits);
}

// The levels of a block of row n of a group; of q6k less 32.
fn levels_of(words: Words, group: u32, block: u32, n: u32) -> Block {
  let low = unpacked(words);
  if (kUpperBits == 0u) {
    return low;
  }
  let first = (group * op.blocks + block) * kBlockWords + 1u + (n >> 2u);
  if (kUpperBits == 1u) {
    let fifth = wscale[first][n & 3u];
    return Block(low.a | upper_bits(fifth, vec4(0u, 1u, 2u, 3u)),
                 low.b | upper_bits(fifth, vec4(4u, 5u, 6u, 7u)));
  }
  let shifts = vec4(0u, 2u, 4u, 6u);
  return Block(centred(low.a | upper_bits(wscale[first][n & 3u], shifts)),
               centred(low.b | upper_bits(wscale[first + 2u][n & 3u], shifts)));
}

// A block that is on its way.
alias Fetched = Block;

fn fetched(words: Words, group: u32, block: u32, n: u32) -> Fetched {
  return levels_of(words, group, block, n);
}

fn levels_in(levels: Fetched) -> Block {
  return levels;
}

// The block's parts of H and L.
fn tile_sum(w: Block, pair: u32, low_a: vec4<u32>, low_b: vec4<u32>, high_a: vec4<u32>,
            high_b: vec4<u32>) -> Sum {
  let a = vec2(dot_of_four(w.a, high_a), dot_of_four(w.a, low_a));
  let b = vec2(dot_of_four(w.b, high_b), dot_of_four(w.b, low_b));
  let by = multipliers_of(pair);
  if (kUpperBits == 2u) {
    return by.x * a + by.y * b;
  }
  return by.x * (a + b);
}

fn block_sum(w: Block, pair: u32, x: BlockInputs) -> Sum {
  return tile_sum(w, pair, x.low_a, x.low_b, x.high_a, x.high_b);
}

// What matmul_superblocks.wgsl adds up over a superblock: H and L.
alias TileSum = Sum;

// Multipliers of 16 columns each.
fn halves_of(pair: u32) -> vec2<i32> {
  let by = multipliers_of(pair);
  return select(by.xx, by, kUpperBits == 2u);
}

fn half_sum(w: vec4<u32>, by: i32, low: vec4<u32>, high: vec4<u32>) -> TileSum {
  return by * vec2(dot_of_four(w, high), dot_of_four(w, low));
}

fn sum_of_tile(sum: TileSum) -> Sum {
  return sum;
}

// What many rows share.
fn tile_weight(levels: Block, pair: u32) -> Block {
  return levels;
}

// d and e of row n of a group of the matrix.
fn weight_factors(group: u32, superblock: u32, n: u32) -> vec2<f32> {
  let at = (op.zero_base >> 2u) + 2u * (group * superblocks() + superblock) + (n >> 2u);
  return unpack2x16float(wscale[at][n & 3u]);
}

// A block's part of B. `total`: the sum of its inputs.
fn least_of(pair: u32, total: i32) -> i32 {
  if (!kHasMinima) {
    return 0;
  }
  return multipliers_of(pair).y * total;
}

// B of a superblock.
fn minima_of(group: u32, superblock: u32, n: u32, first: u32) -> i32 {
  if (!kHasMinima) {
    return 0;
  }
  var total = 0;
  for (var b = 8u * superblock; b < 8u * superblock + 8u; b++) {
    let pair = pair_at(group, b, n);
    let sums = half_sums(first, b);
    total += least_of(pair, sums.x + sums.y);
  }
  return total;
}

// What a superblock of row n of a group adds to an output: f32 of H, L and -B, d * s and e * s.
// `first`: where the row of inputs stands.
struct Term {
  high: f32,
  low: f32,
  least: f32,
  scale: f32,
  least_scale: f32,
}
const kMostTerms = 512u;  // in workgroup memory
const kMostSlots = 16u;  // superblocks of an input there

fn begun_term(found: Found) -> Term {
  return Term(rounded(found.x), rounded(found.y), -rounded(least_found(found)), 0.0, 0.0);
}

fn scaled_term(begun: Term, group: u32, superblock: u32, n: u32, first: u32) -> Term {
  let factors = weight_factors(group, superblock, n) * input_scale(first, superblock);
  return Term(begun.high, begun.low, begun.least, factors.x, factors.y);
}

fn add_term(y: f32, term: Term) -> f32 {
  let whole = fma(term.low, term.scale, fma(term.high, 256.0 * term.scale, y));
  if (!kHasMinima) {
    return whole;
  }
  return fma(term.least, term.least_scale, whole);
}
