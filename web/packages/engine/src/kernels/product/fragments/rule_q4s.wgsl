// The rule of q4s (docs/decisions/0026): a weight is S * m * (q - 8) with a whole multiplier m for
// 16 columns and S for a superblock of 256, an input is s * x with x of 16 bits. T is the exact sum
// of m * (q - 8) * x over a superblock, and
//   y = fma over superblocks rising, from +0: y = fma(f32(T), S * s, y)
// |T| is below 2^30, so 32 columns, or all of them, may be added up in any order.
alias Sum = i32;
alias Found = i32;  // what lanes add up of a superblock
const kHasMinima = false;  // nothing of the sums of inputs is left to take off
const kBlockWords = 1u;  // vec4 of a group's block in `wscale`: multipliers
const kHighBits = 0x80808080u;

// A block that is on its way: its words, so that nobody waits for them before they are needed.
alias Fetched = Words;

fn fetched(words: Words, group: u32, block: u32, n: u32) -> Fetched {
  return words;
}

fn levels_in(words: Fetched) -> Block {
  return unpacked(words);
}

// The levels of a block of row n of a group.
fn levels_of(words: Words, group: u32, block: u32, n: u32) -> Block {
  return unpacked(words);
}

// The same bytes as multipliers_of, by other instructions: they take less time where a row is
// multiplied, and more where tiles of matrix units are made.
fn row_multipliers(pair: u32) -> vec2<i32> {
  let both = bitcast<i32>(pair);
  return vec2(extractBits(both, 0u, 8u), extractBits(both, 8u, 8u));
}

// The block's part of T: -8 times the sums of x takes the 8 off.
fn block_sum(w: Block, pair: u32, x: BlockInputs) -> Sum {
  let by = row_multipliers(pair);
  let zeros = -8 * x.halves;
  let a = (dot_of_four(w.a, x.high_a) << 8u) + dot_of_four(w.a, x.low_a) + zeros.x;
  let c = (dot_of_four(w.b, x.high_b) << 8u) + dot_of_four(w.b, x.low_b) + zeros.y;
  return by.x * a + by.y * c;
}

// Four bytes q, 0 to 15, times m, less 8 m. Where m is negative, 15 - q takes the place of q, and 7
// that of 8. For instance q = 3 and m = -5 are 5 * 12 - 7 * 5 = 25 = -5 * (3 - 8). No product is
// above 225, so none reaches into the next byte. The subtraction sets the top bit of every byte
// first, and puts it right behind that.
fn expanded(q: vec4<u32>, m: i32) -> vec4<u32> {
  let size = u32(abs(m));
  let product = (q ^ vec4<u32>(select(0u, 0x0f0f0f0fu, m < 0))) * size;
  let less = size * select(0x08080808u, 0x07070707u, m < 0);
  return ((product | vec4<u32>(kHighBits)) - vec4<u32>(less)) ^ (~product & vec4<u32>(kHighBits));
}

// What many rows share: m * (q - 8) as signed bytes. Dots are all that is left.
fn tile_weight(levels: Block, pair: u32) -> Block {
  let by = multipliers_of(pair);
  return Block(expanded(levels.a, by.x), expanded(levels.b, by.y));
}

fn tile_sum(w: Block, pair: u32, low_a: vec4<u32>, low_b: vec4<u32>, high_a: vec4<u32>,
            high_b: vec4<u32>) -> Sum {
  let high = dot_of_four(w.a, high_a) + dot_of_four(w.b, high_b);
  return (high << 8u) + dot_of_four(w.a, low_a) + dot_of_four(w.b, low_b);
}

// What matmul_superblocks.wgsl adds up over a superblock: T = 256 * H + L, as H and L.
alias TileSum = vec2<i32>;

// Multipliers of 16 columns each, which are in the bytes already.
fn halves_of(pair: u32) -> vec2<i32> {
  return vec2<i32>();
}

fn half_sum(w: vec4<u32>, by: i32, low: vec4<u32>, high: vec4<u32>) -> TileSum {
  return vec2(dot_of_four(w, high), dot_of_four(w, low));
}

fn sum_of_tile(sum: TileSum) -> Sum {
  return (sum.x << 8u) + sum.y;
}

// S of row n of a group of the matrix: the word that it stands in, and what that says.
fn scale_word(group: u32, superblock: u32, n: u32) -> u32 {
  return wscale[(op.zero_base >> 2u) + group * superblocks() + superblock][n >> 1u];
}

fn scale_of_word(word: u32, n: u32) -> f32 {
  let pair = unpack2x16float(word);
  return select(pair.x, pair.y, (n & 1u) == 1u);
}

fn weight_scale(group: u32, superblock: u32, n: u32) -> f32 {
  return scale_of_word(scale_word(group, superblock, n), n);
}

// What a superblock of row n of a group adds to an output: f32(T), and S * s. `first`: where the
// row of inputs stands.
alias Term = vec2<f32>;
const kMostTerms = 1024u;  // in workgroup memory
const kMostSlots = 32u;  // superblocks of an input there

fn found_of(sum: Sum, least: i32) -> Found {
  return sum;
}

fn least_of(pair: u32, total: i32) -> i32 {
  return 0;
}

fn minima_of(group: u32, superblock: u32, n: u32, first: u32) -> i32 {
  return 0;
}

fn begun_term(found: Found) -> Term {
  return vec2(rounded(found), 0.0);
}

fn scaled_term(begun: Term, group: u32, superblock: u32, n: u32, first: u32) -> Term {
  return vec2(begun.x, weight_scale(group, superblock, n) * input_scale(first, superblock));
}

fn add_term(y: f32, term: Term) -> f32 {
  return fma(term.x, term.y, y);
}
