// Product of many rows with a matrix of q4s on matrix units: the bits of matmul_superblocks.wgsl,
// whose sums are whole numbers, too. A workgroup is kRowParts x kColumnParts subgroups of 32
// threads. Each makes 32 rows of 32 * kPairs outputs, in fragments of 16 rows and 16 outputs:
// fragment i g h has rows 16 i on and outputs 16 (2 g + h) on.
//
// Bytes of 64 columns lie in workgroup memory at a time: m * (q - 8) of all outputs, the low and
// the high bytes of all rows. Units add up w * low and w * high apart over a superblock. What they
// have then, 16 x 16 whole numbers in a fragment, goes through workgroup memory, because which
// thread holds which of them is not known.
const kRows = 32u * kRowParts;
const kPartColumns = 32u * kPairs;
const kColumns = kPartColumns * kColumnParts;
const kThreads = 32u * kRowParts * kColumnParts;
// Words of 64 columns of a row, or of 16 sums, and four so that rows hit different banks.
const kStride = 20u;
const kLow = kColumns * kStride;  // where the low bytes of rows begin
const kHigh = kLow + kRows * kStride + 16u;  // the other half of the banks
const kFragment = 16u * kStride;
const kBytesEnd = kHigh + kRows * kStride;
const kSumsEnd = 4u * kFragment * (kThreads / 32u);
const kOutputsEnd = kRows / 2u * kColumns;

alias Left = subgroup_matrix_left<i8, 32, 16>;
alias Right = subgroup_matrix_right<i8, 16, 32>;

// Bytes of columns, then sums of two fragments of a subgroup, then outputs of half of the rows.
var<workgroup> mem: array<i32, max(kBytesEnd, max(kSumsEnd, kOutputsEnd))>;
var<workgroup> scales: array<f32, kRows + kColumns>;  // of a superblock: rows' and outputs'

fn store_four(at: u32, words: vec4<u32>) {
  let signed = bitcast<vec4<i32>>(words);
  mem[at] = signed.x;
  mem[at + 1u] = signed.y;
  mem[at + 2u] = signed.z;
  mem[at + 3u] = signed.w;
}

// Group g of the tile, in the matrix.
fn group_of_tile(first_group: u32, g: u32) -> u32 {
  return own_head * op.expert_groups + min(first_group + g, op.group_count - 1u);
}

// The bytes of a block of a row of the matrix, which is row `own` of the tile: half of it has one
// multiplier, half the other. Those past the last block are 0.
fn store_weights(words: Words, group: u32, block: u32, own: u32) {
  let n = own & 7u;
  let at = kStride * own + 8u * (block & 1u);
  let pair = pairs_of(group, min(block, op.blocks - 1u))[n >> 1u] >> (16u * (n & 1u));
  let levels = levels_of(words, group, block, n);
  let bytes = tile_weight(levels, select(0u, pair, block < op.blocks));
  store_four(at, bytes.a);
  store_four(at + 4u, bytes.b);
}

// Scale `i` of a superblock: those of the rows, then those of the outputs.
fn scale_at(first_group: u32, superblock: u32, i: u32) -> f32 {
  if (i < kRows) {
    return input_scale(input_of_tile(i), superblock);
  }
  let column = i - kRows;
  return weight_scale(group_of_tile(first_group, column >> 3u), superblock, column & 7u);
}

fn store_scales(first_group: u32, superblock: u32, t: u32) {
  for (var i = t; i < kRows + kColumns; i += kThreads) {
    scales[i] = scale_at(first_group, superblock, i);
  }
}

// The row of a fragment that a lane has as its e-th: lanes 16 apart hit different banks.
fn row_of(e: u32, lane: u32) -> u32 {
  return (e & 3u) + 8u * (e >> 2u) + 4u * (lane >> 4u);
}

// The sum of 256 * high and low that a lane finds at `at`.
fn sum_at(at: u32) -> i32 {
  return 256 * mem[at + kFragment] + mem[at];
}

// Finishes the outputs of half i of the rows, which lie in `mem`: of every 32 rows the first or the
// last 16. A thread has the same row of four neighbouring groups.
fn write_half(i: u32, first_group: u32, t: u32) {
  let own_group = 4u * ((t >> 3u) % (kColumns / 32u));
  for (var half_row = t / (kColumns / 4u); half_row < kRows / 2u;
       half_row += kThreads / (kColumns / 4u)) {
    let at = kColumns * half_row + 8u * own_group + (t & 7u);
    let row = 32u * (half_row >> 4u) + 16u * i + (half_row & 15u);
    write_row(row, first_group + own_group, t & 7u,
              bitcast<vec4<f32>>(vec4(mem[at], mem[at + 8u], mem[at + 16u], mem[at + 24u])));
  }
}

@compute @workgroup_size(kThreads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  if (!open_tile(workgroup, t)) {
    return;
  }
  let first_group = kColumns / 8u * workgroup.y;
  let lane = t & 31u;
  let tile_row = 32u * ((t >> 5u) % kRowParts);
  let tile_column = kPartColumns * ((t >> 5u) / kRowParts);
  let own_sums = 4u * kFragment * (t >> 5u);
  // The bytes that a thread makes are of rows of the matrix, in one of two blocks.
  let n = (t >> 1u) & 7u;
//* each b of kBlocksEach
  let group_$b = group_of_tile(first_group, (t >> 4u) + kThreads / 16u * $bu);
  var words_$b = load_block(8u * group_$b + n, min(t & 1u, op.blocks - 1u));
//* end
//* each i of kTwo
//* each g of kPairs
//* each h of kTwo
//* each e of kLaneRows
  var y_$i_$g_$h_$e = 0.0;
//* end
  var low_$i_$g_$h = subgroup_matrix_result<i32, 16, 16>();
  var high_$i_$g_$h = subgroup_matrix_result<i32, 16, 16>();
//* end
//* end
//* end
  // And a word of the rows' bytes: 32 threads bring two blocks of a row.
  let part = (t >> 2u) & 3u;
  let own_block = (t >> 4u) & 1u;
  let own_bytes = select(kLow, kHigh, part > 1u) + 8u * own_block + (t & 7u) +
    kStride * (t >> 5u);
//* each r of kInputsEach
  let place_$r = part + input_of_tile((t >> 5u) + kThreads / 32u * $ru);
  var input_$r = planes[place_$r + 4u * min(own_block, op.blocks - 1u)][t & 3u];
//* end
  for (var b = 0u; b < op.blocks; b += 2u) {
    workgroupBarrier();
    let block = b + (t & 1u);
//* each b of kBlocksEach
    store_weights(words_$b, group_$b, block, (t >> 1u) + kThreads / 2u * $bu);
//* end
//* each r of kInputsEach
    mem[own_bytes + kStride * (kThreads / 32u * $ru)] = bitcast<i32>(input_$r);
//* end
    if ((b & 7u) == 0u) {
      store_scales(first_group, b >> 3u, t);
    }
//* each b of kBlocksEach
    words_$b = load_block(8u * group_$b + n, min(block + 2u, op.blocks - 1u));
//* end
//* each r of kInputsEach
    input_$r = planes[place_$r + 4u * min(b + 2u + own_block, op.blocks - 1u)][t & 3u];
//* end
    workgroupBarrier();
    for (var k = 0u; k < 16u; k += 8u) {
//* each g of kPairs
//* each h of kTwo
      let w_$g_$h = subgroupMatrixLoad<Right, col_major>(
        &mem, kStride * (tile_column + 32u * $gu + 16u * $hu) + k, kStride);
//* end
//* end
//* each i of kTwo
      let x_$i = subgroupMatrixLoad<Left, row_major>(
        &mem, kLow + kStride * (tile_row + 16u * $iu) + k, kStride);
      let z_$i = subgroupMatrixLoad<Left, row_major>(
        &mem, kHigh + kStride * (tile_row + 16u * $iu) + k, kStride);
//* each g of kPairs
//* each h of kTwo
      low_$i_$g_$h = subgroupMatrixMultiplyAccumulate(x_$i, w_$g_$h, low_$i_$g_$h);
      high_$i_$g_$h = subgroupMatrixMultiplyAccumulate(z_$i, w_$g_$h, high_$i_$g_$h);
//* end
//* end
//* end
    }
    if ((b & 7u) == 6u || b + 2u >= op.blocks) {
//* each i of kTwo
//* each g of kPairs
      workgroupBarrier();
//* each h of kTwo
      subgroupMatrixStore<row_major>(
        &mem, own_sums + 2u * kFragment * $hu, low_$i_$g_$h, kStride);
      subgroupMatrixStore<row_major>(
        &mem, own_sums + 2u * kFragment * $hu + kFragment, high_$i_$g_$h, kStride);
      low_$i_$g_$h = subgroup_matrix_result<i32, 16, 16>();
      high_$i_$g_$h = subgroup_matrix_result<i32, 16, 16>();
//* end
      workgroupBarrier();
//* each e of kLaneRows
      {
        let row = row_of($eu, lane);
        let scale = scales[tile_row + 16u * $iu + row];
        let at = own_sums + kStride * row + (lane & 15u);
//* each h of kTwo
        y_$i_$g_$h_$e = fma(
          rounded(sum_at(at + 2u * kFragment * $hu)),
          scales[kRows + tile_column + 32u * $gu + 16u * $hu + (lane & 15u)] * scale,
          y_$i_$g_$h_$e);
//* end
      }
//* end
//* end
//* end
    }
  }
//* each i of kTwo
  workgroupBarrier();
//* each g of kPairs
//* each h of kTwo
//* each e of kLaneRows
  mem[kColumns * (tile_row / 2u + row_of($eu, lane)) + tile_column + 32u * $gu + 16u * $hu +
      (lane & 15u)] = bitcast<i32>(y_$i_$g_$h_$e);
//* end
//* end
//* end
  workgroupBarrier();
  write_half($iu, first_group, t);
//* end
}
