// Product of many rows with a matrix of q4s on matrix units: the bits of matmul_superblocks.wgsl,
// whose sums are whole numbers, too. A workgroup is kRowParts x kColumnParts subgroups of 32
// threads. Each makes 32 rows of 32 outputs, in fragments of 16 rows and 16 outputs: fragment i h
// has rows 16 i on and outputs 16 h on.
//
// Bytes of 64 columns lie in workgroup memory at a time: m * (q - 8) of all outputs, the low and
// the high bytes of all rows. A step takes what was loaded two steps before. Units add up w * low
// and w * high apart over a superblock. What they have then, 16 x 16 whole numbers in a fragment,
// goes through workgroup memory, because which thread holds which of them is not known.
const kRows = 32u * kRowParts;
const kColumns = 32u * kColumnParts;
const kThreads = 32u * kRowParts * kColumnParts;
// Words of 64 columns of a row, or of 16 sums, and four so that rows hit different banks.
const kStride = 20u;
// Of 16 rows of a fragment, and half of the banks more, where high bytes begin.
const kHighAt = 16u;
const kPartWords = 16u * kStride + kHighAt;
const kLowPart = kColumns / 16u;  // where the low bytes of rows begin
const kHighPart = kLowPart + kRows / 16u;
const kBytesEnd = kHighPart + kRows / 16u;
const kSumsEnd = 4u * (kThreads / 32u);
const kOutputWords = 256u;  // of a part
const kOutputsEnd = kRows / 2u * kColumns / kOutputWords;

// Bytes of columns, then sums of two fragments of a subgroup, then outputs of half of the rows.
var<workgroup> mem: array<array<i32, kPartWords>, max(kBytesEnd, max(kSumsEnd, kOutputsEnd))>;
var<workgroup> scales: array<f32, kRows + kColumns>;  // of a superblock: rows' and outputs'

// The bytes of a block of a row of the matrix, which is row `own` of the tile: half of it has one
// multiplier, half the other.
fn store_weights(words: Words, pairs: u32, group: u32, block: u32, own: u32) {
  let at = kStride * (own & 15u) + 8u * (block & 1u);
  let turn = ((own >> 3u) & 1u) | ((block & 1u) << 1u);
  let n = own & 7u;
  let bytes = tile_weight(levels_of(words, group, block, n), pair_of(pairs, block, n));
  store_four(own >> 4u, at, bytes.a, turn);
  store_four(own >> 4u, at + 4u, bytes.b, turn);
}

// The row of a fragment that a lane has as its e-th: lanes 16 apart hit different banks.
fn row_of(e: u32, lane: u32) -> u32 {
  return (e & 3u) + 8u * (e >> 2u) + 4u * (lane >> 4u);
}

// Where a thread leaves its word of row `row`: 32 threads bring two blocks of it, low and high
// bytes.
fn input_part(row: u32, t: u32) -> u32 {
  return select(kLowPart, kHighPart, (t & 8u) == 8u) + (row >> 4u);
}

fn input_at(row: u32, t: u32) -> u32 {
  return select(0u, kHighAt, (t & 8u) == 8u) + 8u * ((t >> 4u) & 1u) + (t & 7u) +
    kStride * (row & 15u);
}

// A thread's word of the rows' bytes, of block `block` or the one behind it.
fn load_input(place: u32, block: u32, t: u32) -> u32 {
  return planes[place + 4u * min(block + ((t >> 4u) & 1u), op.blocks - 1u)][t & 3u];
}

// The sum of 256 * high and low that a lane finds at `at` of two parts.
fn sum_at(part: u32, at: u32) -> i32 {
  return 256 * mem[part + 1u][at] + mem[part][at];
}

// Finishes the outputs of half i of the rows, which lie in `mem`: of every 32 rows the first or the
// last 16. A thread has the same row of four neighbouring groups.
fn write_half(i: u32, first_group: u32, t: u32) {
  let own_group = 4u * ((t >> 3u) % (kColumns / 32u));
  for (var half_row = t / (kColumns / 4u); half_row < kRows / 2u;
       half_row += kThreads / (kColumns / 4u)) {
    let row = 32u * (half_row >> 4u) + 16u * i + (half_row & 15u);
    finish_outputs(row, first_group + own_group, t & 7u,
                   kColumns * half_row + 8u * own_group + (t & 7u));
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
  let tile_column = 32u * ((t >> 5u) / kRowParts);
  let own_column = tile_column + (lane & 15u);
  let own_sums = 4u * (t >> 5u);  // its first part
  // The bytes that a thread makes are of rows of the matrix, in one of two blocks.
  let n = (t >> 1u) & 7u;
//* each b of kBlocksEach
  let group_$b = group_of_tile(first_group, (t >> 4u) + kThreads / 16u * $bu);
//* each a of kTwo
  var words_$a_$b = words_of(group_$b, 2u * $au + (t & 1u), n);
  var pairs_$a_$b = two_pairs_of(group_$b, 2u * $au + (t & 1u), n);
//* end
//* end
//* each i of kTwo
//* each h of kTwo
//* each e of kLaneRows
  var y_$i_$h_$e = 0.0;
//* end
  var low_$i_$h = subgroup_matrix_result<i32, 16, 16>();
  var high_$i_$h = subgroup_matrix_result<i32, 16, 16>();
//* end
//* end
//* each i of kScalesEach
  var bits_$i = scale_bits_at(first_group, 0u, t + kThreads * $iu);
//* end
//* each r of kInputsEach
  let row_$r = (t >> 5u) + kThreads / 32u * $ru;
  let place_$r = ((t >> 2u) & 3u) + input_of_tile(row_$r);
//* each a of kTwo
  var input_$a_$r = load_input(place_$r, 2u * $au, t);
//* end
//* end
  for (var first = 0u; first < op.blocks; first += 4u) {
//* each a of kTwo
    let b_$a = first + 2u * $au;
    if (b_$a < op.blocks) {
      workgroupBarrier();
      let block = b_$a + (t & 1u);
//* each b of kBlocksEach
      store_weights(words_$a_$b, pairs_$a_$b, group_$b, block, (t >> 1u) + kThreads / 2u * $bu);
//* end
//* each r of kInputsEach
      mem[input_part(row_$r, t)][input_at(row_$r, t)] = bitcast<i32>(input_$a_$r);
//* end
      if ((b_$a & 7u) == 0u) {
//* each i of kScalesEach
        store_scale(0u, bits_$i, t + kThreads * $iu);
        bits_$i = scale_bits_at(first_group, (b_$a >> 3u) + 1u, t + kThreads * $iu);
//* end
      }
//* each b of kBlocksEach
      words_$a_$b = words_of(group_$b, block + 4u, n);
      pairs_$a_$b = two_pairs_of(group_$b, block + 4u, n);
//* end
//* each r of kInputsEach
      input_$a_$r = load_input(place_$r, b_$a + 4u, t);
//* end
      workgroupBarrier();
//* each k of kTwo
      {
//* each h of kTwo
        let w_$h = subgroupMatrixLoad<Right, col_major>(
          &mem[(tile_column >> 4u) + $hu], 8u * $ku, kStride);
//* end
//* each i of kTwo
        let x_$i = subgroupMatrixLoad<Left, row_major>(
          &mem[kLowPart + (tile_row >> 4u) + $iu], 8u * $ku, kStride);
        let z_$i = subgroupMatrixLoad<Left, row_major>(
          &mem[kHighPart + (tile_row >> 4u) + $iu], kHighAt + 8u * $ku, kStride);
//* each h of kTwo
        low_$i_$h = subgroupMatrixMultiplyAccumulate(x_$i, w_$h, low_$i_$h);
        high_$i_$h = subgroupMatrixMultiplyAccumulate(z_$i, w_$h, high_$i_$h);
//* end
//* end
      }
//* end
      if ((b_$a & 7u) == 6u || b_$a + 2u >= op.blocks) {
//* each i of kTwo
        workgroupBarrier();
//* each h of kTwo
        subgroupMatrixStore<row_major>(&mem[own_sums + 2u * $hu], 0u, low_$i_$h, kStride);
        subgroupMatrixStore<row_major>(&mem[own_sums + 2u * $hu + 1u], 0u, high_$i_$h, kStride);
        low_$i_$h = subgroup_matrix_result<i32, 16, 16>();
        high_$i_$h = subgroup_matrix_result<i32, 16, 16>();
//* end
        workgroupBarrier();
//* each e of kLaneRows
        {
          let row = row_of($eu, lane);
          let scale = scales[tile_row + 16u * $iu + row];
          let at = kStride * row + (lane & 15u);
//* each h of kTwo
          y_$i_$h_$e = fma(rounded(sum_at(own_sums + 2u * $hu, at)),
                           scales[kRows + own_column + 16u * $hu] * scale, y_$i_$h_$e);
//* end
        }
//* end
//* end
      }
    }
//* end
  }
//* each i of kTwo
  workgroupBarrier();
//* each h of kTwo
//* each e of kLaneRows
  store_output(kColumns * (tile_row / 2u + row_of($eu, lane)) + own_column + 16u * $hu, y_$i_$h_$e);
//* end
//* end
  workgroupBarrier();
  write_half($iu, first_group, t);
//* end
}
