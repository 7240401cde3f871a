// Product of 2 to 32 rows with a matrix of q4s on matrix units: the bits of matmul_units.wgsl. A
// workgroup is kColumnParts x kDeep subgroups of 32 threads. Each makes 16 * kTall rows of 16
// outputs, of every kDeep-th superblock: so that a GPU is busy that has few outputs to make. For
// instance with kDeep = 4
//
//   subgroups    0 1 2 3    of superblocks 0 1 2 3 | y = fma in this order | 4 5 6 7 | ...
//
// Bytes of 64 columns lie in workgroup memory at a time: m * (q - 8) of all outputs, the low and
// the high bytes of all rows, for each of kDeep superblocks. What they are made of is loaded two
// steps before, for a step takes a fraction of the time that memory does. Fragment i has rows 16 i
// on. Two fragments of outputs would take twice the registers, and half as many subgroups fit.
const kRows = 16u * kTall;
const kColumns = 16u * kColumnParts;
const kSubgroups = kColumnParts * kDeep;
const kThreads = 32u * kSubgroups;
const kStride = 20u;
const kHighAt = 16u;
const kPartWords = 16u * kStride + kHighAt;
const kLowPart = kSubgroups;  // where the bytes of rows begin
const kHighPart = kLowPart + kTall * kDeep;
const kParts = kHighPart + kTall * kDeep;
const kOutputWords = 256u;  // of a part
const kScales = kRows + kColumns;
const kInputThreads = 32u * kColumnParts;  // that bring the rows' bytes of a superblock
const kOutputParts = kRows * kColumns / kOutputWords;

// Bytes, then low and high sums of a fragment of each subgroup, then outputs.
var<workgroup> mem: array<array<i32, kPartWords>, max(kParts, max(2u * kSubgroups, kOutputParts))>;
var<workgroup> scales: array<f32, kDeep * kScales>;  // rows', then outputs'

// 16 bytes of an input of block `block` and the one behind it: piece x of eight.
fn load_input(place: u32, block: u32, x: u32) -> vec4<u32> {
  return planes[place + 4u * min(block + ((x >> 2u) & 1u), op.blocks - 1u) + (x & 3u)];
}

// The block of a thread's weights, of its superblock `s`, in step c of four.
fn block_in(s: u32, c: u32, t: u32) -> u32 {
  return 8u * s + 2u * c + (t & 1u);
}

// Bytes of a block of a row of the matrix: a lane's, in its subgroup's part.
fn store_weights(words: Words, pairs: u32, group: u32, block: u32, t: u32) {
  let lane = t & 31u;
  let n = (lane >> 1u) & 7u;
  let bytes = tile_weight(levels_of(words, group, block, n), pair_of(pairs, block, n));
  let at = kStride * (lane >> 1u) + 8u * (t & 1u);
  let turn = (lane >> 4u) | ((t & 1u) << 1u);
  store_four(t >> 5u, at, bytes.a, turn);
  store_four(t >> 5u, at + 4u, bytes.b, turn);
}

// Piece x of the rows' 128 or 256, of a subgroup's superblock.
fn store_input(words: vec4<u32>, x: u32, deep: u32) {
  let is_high = (x & 2u) == 2u;
  let at = select(0u, kHighAt, is_high) + kStride * ((x >> 3u) & 15u) + 8u * ((x >> 2u) & 1u) +
    4u * (x & 1u);
  store_four(select(kLowPart, kHighPart, is_high) + kTall * deep + (x >> 7u), at, words, x >> 3u);
}

// Which scale of a superblock is a thread's i-th.
fn own_scale(t: u32, i: u32) -> u32 {
  return t % kInputThreads + kInputThreads * i;
}

// Finishes all outputs, which lie in `mem`.
fn write_outputs(first_group: u32, t: u32) {
  let own_group = 4u * ((t >> 3u) % (kColumns / 32u));
  for (var row = t / (kColumns / 4u); row < kRows; row += kThreads / (kColumns / 4u)) {
    finish_outputs(row, first_group + own_group, t & 7u,
                   kColumns * row + 8u * own_group + (t & 7u));
  }
}

@compute @workgroup_size(kThreads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  if (!open_tile(workgroup, t)) {
    return;
  }
  let first_group = kColumns / 8u * workgroup.y;
  let lane = t & 31u;
  let subgroup = t >> 5u;
  let column_part = subgroup % kColumnParts;
  let deep = subgroup / kColumnParts;
  // A lane makes bytes of one of two blocks of rows lane / 2 of the matrix.
  let n = (lane >> 1u) & 7u;
  let group = group_of_tile(first_group, 2u * column_part + (lane >> 4u));
//* each a of kTwo
  var words_$a = words_of(group, block_in(deep, $au, t), n);
  var pairs_$a = two_pairs_of(group, block_in(deep, $au, t), n);
//* end
  // And it brings pieces of rows, and scales.
//* each r of kInputsEach
  let x_$r = t % kInputThreads + kInputThreads * $ru;
  let place_$r = input_of_tile(x_$r >> 3u);
//* each a of kTwo
  var input_$a_$r = load_input(place_$r, 8u * deep + 2u * $au, x_$r);
//* end
//* end
//* each i of kScalesEach
  var bits_$i = scale_bits_at(first_group, deep, own_scale(t, $iu));
//* end
//* each i of kTall
//* each e of kSumsEach
  var y_$i_$e = 0.0;
//* end
//* end
  for (var begin = 0u; begin < superblocks(); begin += kDeep) {
    let s = begin + deep;
//* each i of kTall
    var low_$i = subgroup_matrix_result<i32, 16, 16>();
    var high_$i = subgroup_matrix_result<i32, 16, 16>();
//* end
    // Step 2 q + a of four takes what was loaded two steps before.
//* each q of kTwo
//* each a of kTwo
    workgroupBarrier();
    store_weights(words_$a, pairs_$a, group, block_in(s, 2u * $qu + $au, t), t);
//* each r of kInputsEach
    store_input(input_$a_$r, x_$r, deep);
//* end
    if ($qu + $au == 0u) {
//* each i of kScalesEach
      store_scale(kScales * deep, bits_$i, own_scale(t, $iu));
      bits_$i = scale_bits_at(first_group, s + kDeep, own_scale(t, $iu));
//* end
    }
    let next_s_$q_$a = s + kDeep * $qu;
    let next_c_$q_$a = 2u - 2u * $qu + $au;
    words_$a = words_of(group, block_in(next_s_$q_$a, next_c_$q_$a, t), n);
    pairs_$a = two_pairs_of(group, block_in(next_s_$q_$a, next_c_$q_$a, t), n);
//* each r of kInputsEach
    input_$a_$r = load_input(place_$r, 8u * next_s_$q_$a + 2u * next_c_$q_$a, x_$r);
//* end
    workgroupBarrier();
//* each k of kTwo
    {
      let w = subgroupMatrixLoad<Right, col_major>(&mem[subgroup], 8u * $ku, kStride);
//* each i of kTall
      let x_$i = subgroupMatrixLoad<Left, row_major>(
        &mem[kLowPart + kTall * deep + $iu], 8u * $ku, kStride);
      let z_$i = subgroupMatrixLoad<Left, row_major>(
        &mem[kHighPart + kTall * deep + $iu], kHighAt + 8u * $ku, kStride);
      low_$i = subgroupMatrixMultiplyAccumulate(x_$i, w, low_$i);
      high_$i = subgroupMatrixMultiplyAccumulate(z_$i, w, high_$i);
//* end
    }
//* end
//* end
//* end
    // The kDeep subgroups of the same outputs share what is left to do with a fragment's sums.
//* each i of kTall
    workgroupBarrier();
    subgroupMatrixStore<row_major>(&mem[2u * subgroup], 0u, low_$i, kStride);
    subgroupMatrixStore<row_major>(&mem[2u * subgroup + 1u], 0u, high_$i, kStride);
    workgroupBarrier();
    for (var j = 0u; j < kDeep && begin + j < superblocks(); j++) {
      let part = 2u * (kColumnParts * j + column_part);
      let by = scales[kScales * j + kRows + 16u * column_part + (lane & 15u)];
//* each e of kSumsEach
      {
        let row = 2u * (kDeep * $eu + deep) + (lane >> 4u);
        let at = kStride * row + (lane & 15u);
        y_$i_$e = fma(rounded(256 * mem[part + 1u][at] + mem[part][at]),
                      by * scales[kScales * j + 16u * $iu + row], y_$i_$e);
      }
//* end
    }
//* end
  }
  workgroupBarrier();
//* each i of kTall
//* each e of kSumsEach
  store_output(kColumns * (16u * $iu + 2u * (kDeep * $eu + deep) + (lane >> 4u)) +
               16u * column_part + (lane & 15u), y_$i_$e);
//* end
//* end
  workgroupBarrier();
  write_outputs(first_group, t);
}
