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
