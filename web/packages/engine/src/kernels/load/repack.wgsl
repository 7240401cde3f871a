// Brings rows of a weight as the package stores them into the groups that products read, padded to
// whole blocks and groups (weights/matrix.ts). One word of the result a thread. Source rows may
// begin at any byte.
@group(0) @binding(1) var<uniform> op: Op;
@group(0) @binding(3) var<storage, read> source: array<u32>;
@group(0) @binding(6) var<storage, read_write> packed: array<u32>;

fn byte_at(row: u32, at: u32) -> u32 {
  if (row >= op.rows || at >= op.row_bytes) {
    return 0u;
  }
  let index = row * op.row_bytes + at;
  return (source[index >> 2u] >> (8u * (index & 3u))) & 255u;
}

fn half_at(row: u32, at: u32) -> u32 {
  return byte_at(row, at) | (byte_at(row, at + 1u) << 8u);
}

// Rows of scales begin at even bytes.
fn scale_at(row: u32, at: u32) -> u32 {
  if (row >= op.rows || at >= op.row_bytes) {
    return 0u;
  }
  let index = row * op.row_bytes + at;
  return (source[index >> 2u] >> (8u * (index & 2u))) & 65535u;
}

// A record of q4s: S, the signs of 16 multipliers, their magnitudes of 4 bits.
const kRecordBytes = 12u;

// The multipliers of a block's 2 x 16 columns as signed bytes.
fn multipliers_at(row: u32, block: u32) -> u32 {
  let record = kRecordBytes * (block >> 3u);
  let i = block & 7u;
  let signs = scale_at(row, record + 2u) >> (2u * i);
  let sizes = byte_at(row, record + 4u + i);
  let first = select(sizes & 15u, 256u - (sizes & 15u), (signs & 1u) == 1u);
  let last = select(sizes >> 4u, 256u - (sizes >> 4u), (signs & 2u) == 2u);
  return (first & 255u) | ((last & 255u) << 8u);
}

// Bits of a level of a k-quant above its low four: records of 16, 48 and 82 bytes.
fn upper_bits() -> u32 {
  return op.record_bytes >> 5u;
}

// s and m of a block's 32 columns, in q6k s of both halves, a byte each (src/tensor/kquants.h).
fn scales_of(row: u32, block: u32) -> u32 {
  let record = op.record_bytes * (block >> 3u);
  let j = block & 7u;
  if (upper_bits() == 2u) {
    return half_at(row, record + 2u + 2u * j);
  }
  let packed = record + 4u;
  if (j < 4u) {
    return (byte_at(row, packed + j) & 63u) | ((byte_at(row, packed + j + 4u) & 63u) << 8u);
  }
  let low = byte_at(row, packed + j + 4u);
  let s = (low & 15u) | ((byte_at(row, packed + j - 4u) >> 6u) << 4u);
  let m = (low >> 4u) | ((byte_at(row, packed + j) >> 6u) << 4u);
  return s | (m << 8u);
}

// Upper bits of 32 columns, or of 16 where there are two a level, in the order of the levels'
// bytes: byte k of word p has columns 8 (p / 2) + 2 k + p % 2. In the record, column c has its bits
// in byte c % 4, at place c / 4.
fn upper_word(row: u32, word_at: u32) -> u32 {
  let bits = upper_bits();
  var result = 0u;
  for (var k = 0u; k < 4u; k++) {
    for (var p = 0u; p < 8u / bits; p++) {
      let c = 8u * (p >> 1u) + 2u * k + (p & 1u);
      let of_column = byte_at(row, word_at + (c & 3u)) >> (bits * (c >> 2u));
      result |= (of_column & ((1u << bits) - 1u)) << (8u * k + bits * p);
    }
  }
  return result;
}

// Words of a block of eight rows: two bytes of each, then upper bits (rule_kquants.wgsl).
fn part_word(group: u32, word: u32) -> u32 {
  let bits = upper_bits();
  let words = 4u + 8u * bits;
  let block = word / words;
  let at = word % words;
  if (at < 4u) {
    let row = 8u * group + 2u * at;
    return scales_of(row, block) | (scales_of(row + 1u, block) << 16u);
  }
  let row = 8u * group + ((at - 4u) & 7u);
  let half = (at - 4u) >> 3u;
  let first = op.record_bytes * (block >> 3u) + select(16u, 18u, bits == 2u);
  return upper_word(row, first + 4u * (bits * (block & 7u) + half));
}

// d and e of a row's superblock; of q6k e is 0.
fn factors_word(group: u32, word: u32) -> u32 {
  let row = 8u * group + (word & 7u);
  let record = op.record_bytes * (word >> 3u);
  let e = select(half_at(row, record + 2u), 0u, upper_bits() == 2u);
  return half_at(row, record) | (e << 16u);
}

fn word_of(group: u32, word: u32) -> u32 {
  if (op.kind == kRepackData) {
    let row_words = op.words >> 3u;
    let row = 8u * group + word / row_words;
    let at = 4u * (word % row_words);
    return half_at(row, at) | (half_at(row, at + 2u) << 16u);
  }
  if (op.kind == kRepackScales) {
    let row = 8u * group + 2u * (word & 3u);
    let at = 2u * (word >> 2u);
    return scale_at(row, at) | (scale_at(row + 1u, at) << 16u);
  }
  if (op.kind == kRepackSuperScales) {
    let row = 8u * group + 2u * (word & 3u);
    let at = kRecordBytes * (word >> 2u);
    return scale_at(row, at) | (scale_at(row + 1u, at) << 16u);
  }
  if (op.kind == kRepackKQuantParts) {
    return part_word(group, word);
  }
  if (op.kind == kRepackKQuantFactors) {
    return factors_word(group, word);
  }
  if (op.kind == kRepackMultipliers) {
    let row = 8u * group + 2u * (word & 3u);
    return multipliers_at(row, word >> 2u) | (multipliers_at(row + 1u, word >> 2u) << 16u);
  }
  var nibbles = 0u;
  for (var r = 0u; r < 8u; r++) {
    let both = byte_at(8u * group + r, word >> 1u);
    nibbles |= ((both >> (4u * (word & 1u))) & 15u) << (4u * r);
  }
  return nibbles;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let index = id.y * op.threads_x + id.x;
  let group = index / op.words;
  if (group >= op.groups) {
    return;
  }
  let word = index % op.words;
  packed[op.out_base + group * op.group_step * op.words + word] = word_of(group, word);
}
