// Product of 2 to 32 rows with a matrix of q4s on matrix units: the bits of matmul_units.wgsl. A
// workgroup is kColumnParts x kDeep subgroups of 32 threads. Each makes 16 * kTall rows of 32
// outputs, of every kDeep-th superblock: so that a GPU is busy that has few outputs to make. For
// instance with kDeep = 4
//
//   subgroups    0 1 2 3    of superblocks 0 1 2 3 | y = fma in this order | 4 5 6 7 | ...
//
// Bytes of 64 columns lie in workgroup memory at a time: m * (q - 8) of all outputs, the low and
// the high bytes of all rows, for each of kDeep superblocks. Fragment i h has rows 16 i on and
// outputs 16 h on.
const kRows = 16u * kTall;
const kColumns = 32u * kColumnParts;
const kSubgroups = kColumnParts * kDeep;
const kThreads = 32u * kSubgroups;
const kStride = 20u;
const kHighAt = 16u;
const kPartWords = 16u * kStride + kHighAt;
const kLowPart = 2u * kSubgroups;  // where the bytes of rows begin
const kHighPart = kLowPart + kTall * kDeep;
const kParts = kHighPart + kTall * kDeep;
const kOutputWords = 256u;  // of a part
const kScales = kRows + kColumns;
const kInputThreads = 32u * kColumnParts;  // that bring the rows' bytes of a superblock

// Bytes, then low and high sums of a fragment of each subgroup, then outputs.
var<workgroup> mem: array<array<i32, kPartWords>, max(kParts, kRows * kColumns / kOutputWords)>;
var<workgroup> scales: array<f32, kDeep * kScales>;  // rows', then outputs'

// 16 bytes of an input of block `block` and the one behind it: piece x of eight.
fn load_input(place: u32, block: u32, x: u32) -> vec4<u32> {
  return planes[place + 4u * min(block + ((x >> 2u) & 1u), op.blocks - 1u) + (x & 3u)];
}

// The block of a thread's weights, of its superblock `s`, in step c of four.
fn block_in(s: u32, c: u32, t: u32) -> u32 {
  return 8u * s + 2u * c + (t & 1u);
}

// Bytes of a block of a row of the matrix: a lane's, in its subgroup's part h.
fn store_weights(words: Words, pair: u32, group: u32, block: u32, h: u32, t: u32) {
  let lane = t & 31u;
  let bytes = tile_weight(levels_of(words, group, block, (lane >> 1u) & 7u), pair);
  let at = kStride * (lane >> 1u) + 8u * (t & 1u);
  let turn = (lane >> 4u) | ((t & 1u) << 1u);
  store_four(2u * (t >> 5u) + h, at, bytes.a, turn);
  store_four(2u * (t >> 5u) + h, at + 4u, bytes.b, turn);
}

// Piece x of the rows' 128 or 256, of a subgroup's superblock.
fn store_input(words: vec4<u32>, x: u32, deep: u32) {
  let is_high = (x & 2u) == 2u;
  let at = select(0u, kHighAt, is_high) + kStride * ((x >> 3u) & 15u) + 8u * ((x >> 2u) & 1u) +
    4u * (x & 1u);
  store_four(select(kLowPart, kHighPart, is_high) + kTall * deep + (x >> 7u), at, words, x >> 3u);
}

// Which scale of a superblock is a thread's i-th; those past the last one are nobody's.
fn own_scale(t: u32, i: u32) -> u32 {
  return t % kInputThreads + kInputThreads * i;
}

fn store_scale(deep: u32, i: u32, scale: f32) {
  if (i < kScales) {
    scales[kScales * deep + i] = scale;
  }
}

// Finishes all outputs, which lie in `mem`.
fn write_outputs(first_group: u32, t: u32) {
  let own_group = 4u * ((t >> 3u) % kColumnParts);
  for (var row = t / (8u * kColumnParts); row < kRows; row += kThreads / (8u * kColumnParts)) {
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
//* each h of kTwo
  let group_$h = group_of_tile(first_group, 4u * column_part + 2u * $hu + (lane >> 4u));
  var words_$h = words_of(group_$h, block_in(deep, 0u, t), n);
  var pair_$h = pair_of(group_$h, block_in(deep, 0u, t), n);
//* end
  // And it brings pieces of rows, and scales.
//* each r of kInputsEach
  let x_$r = t % kInputThreads + kInputThreads * $ru;
  let place_$r = input_of_tile(x_$r >> 3u);
  var input_$r = load_input(place_$r, 8u * deep, x_$r);
//* end
//* each i of kScalesEach
  var scale_$i = scale_at(first_group, deep, own_scale(t, $iu));
//* end
//* each i of kTall
//* each h of kTwo
//* each e of kSumsEach
  var y_$i_$h_$e = 0.0;
//* end
//* end
//* end
  for (var begin = 0u; begin < superblocks(); begin += kDeep) {
    let s = begin + deep;
//* each i of kTall
//* each h of kTwo
    var low_$i_$h = subgroup_matrix_result<i32, 16, 16>();
    var high_$i_$h = subgroup_matrix_result<i32, 16, 16>();
//* end
//* end
    for (var c = 0u; c < 4u; c++) {
      workgroupBarrier();
//* each h of kTwo
      store_weights(words_$h, pair_$h, group_$h, block_in(s, c, t), $hu, t);
//* end
//* each r of kInputsEach
      store_input(input_$r, x_$r, deep);
//* end
      let next_s = select(s, s + kDeep, c == 3u);
      let next_c = (c + 1u) & 3u;
      if (c == 0u) {
//* each i of kScalesEach
        store_scale(deep, own_scale(t, $iu), scale_$i);
        scale_$i = scale_at(first_group, s + kDeep, own_scale(t, $iu));
//* end
      }
//* each h of kTwo
      words_$h = words_of(group_$h, block_in(next_s, next_c, t), n);
      pair_$h = pair_of(group_$h, block_in(next_s, next_c, t), n);
//* end
//* each r of kInputsEach
      input_$r = load_input(place_$r, 8u * next_s + 2u * next_c, x_$r);
//* end
      workgroupBarrier();
//* each k of kTwo
      {
//* each h of kTwo
        let w_$h = subgroupMatrixLoad<Right, col_major>(
          &mem[2u * subgroup + $hu], 8u * $ku, kStride);
//* end
//* each i of kTall
        let x_$i = subgroupMatrixLoad<Left, row_major>(
          &mem[kLowPart + kTall * deep + $iu], 8u * $ku, kStride);
        let z_$i = subgroupMatrixLoad<Left, row_major>(
          &mem[kHighPart + kTall * deep + $iu], kHighAt + 8u * $ku, kStride);
//* each h of kTwo
        low_$i_$h = subgroupMatrixMultiplyAccumulate(x_$i, w_$h, low_$i_$h);
        high_$i_$h = subgroupMatrixMultiplyAccumulate(z_$i, w_$h, high_$i_$h);
//* end
//* end
      }
//* end
    }
    // The kDeep subgroups of the same outputs share what is left to do with a fragment's sums.
//* each i of kTall
//* each h of kTwo
    workgroupBarrier();
    subgroupMatrixStore<row_major>(&mem[2u * subgroup], 0u, low_$i_$h, kStride);
    subgroupMatrixStore<row_major>(&mem[2u * subgroup + 1u], 0u, high_$i_$h, kStride);
    workgroupBarrier();
    for (var j = 0u; j < kDeep && begin + j < superblocks(); j++) {
      let part = 2u * (kColumnParts * j + column_part);
      let by = scales[kScales * j + kRows + 32u * column_part + 16u * $hu + (lane & 15u)];
//* each e of kSumsEach
      {
        let row = 2u * (kDeep * $eu + deep) + (lane >> 4u);
        let at = kStride * row + (lane & 15u);
        y_$i_$h_$e = fma(rounded(256 * mem[part + 1u][at] + mem[part][at]),
                         by * scales[kScales * j + 16u * $iu + row], y_$i_$h_$e);
      }
//* end
    }
//* end
//* end
  }
  workgroupBarrier();
//* each i of kTall
//* each h of kTwo
//* each e of kSumsEach
  store_output(kColumns * (16u * $iu + 2u * (kDeep * $eu + deep) + (lane >> 4u)) +
               32u * column_part + 16u * $hu + (lane & 15u), y_$i_$h_$e);
//* end
//* end
//* end
  workgroupBarrier();
  write_outputs(first_group, t);
}
