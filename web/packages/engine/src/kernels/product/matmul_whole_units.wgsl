// Product of many rows with a large matrix of q4s on matrix units: the bits of matmul_units.wgsl,
// in tiles that fill a processor. A workgroup is kRowParts x kColumnParts subgroups of 32 threads.
// Each makes 32 rows of 32 outputs: fragment i h has rows 16 i on and outputs 16 h on.
//
// Bytes m * (q - 8) of all outputs lie in workgroup memory for a superblock at a time. A byte of
// rows comes after it, 64 columns at a time, the high ones first:
//
//   add up w * high over 4 x 64 columns | sums times 256 | add up w * low over 4 x 64 columns
//
// so that one whole number is all that leaves the units of 256 columns, and takes registers. It
// goes through workgroup memory, because which thread holds which part of a fragment is not known.
const kRows = 32u * kRowParts;
const kColumns = 32u * kColumnParts;
const kThreads = 32u * kRowParts * kColumnParts;
// Words of a row of the matrix, and of 64 columns of an input, and four so that rows hit different
// banks; words of 16 sums, and one.
const kWeightStride = 68u;
const kInputStride = 20u;
const kSumStride = 17u;
const kPartWords = 16u * kWeightStride;
const kSums = 16u * kSumStride;  // a quarter of a part
const kOutputWords = 1024u;  // of a part

// Bytes of outputs, then sums of half of the rows, then their outputs.
var<workgroup> mem: array<array<i32, kPartWords>, kColumns / 16u>;
var<workgroup> inputs: array<array<i32, 16u * kInputStride>, kRows / 16u>;
var<workgroup> scales: array<f32, kRows + kColumns>;  // of a superblock: rows' and outputs'

// A thread's 16 bytes of a row of inputs. As store_four.
fn store_input(row: u32, words: vec4<u32>, turn: u32) {
  let own = turned(words, turn);
  let part = row >> 4u;
  let at = kInputStride * (row & 15u) + 4u * (turn & 3u);
  inputs[part][at + (turn & 3u)] = own.x;
  inputs[part][at + ((turn + 1u) & 3u)] = own.y;
  inputs[part][at + ((turn + 2u) & 3u)] = own.z;
  inputs[part][at + ((turn + 3u) & 3u)] = own.w;
}

// Bytes of a block of a row of the matrix, which is row `own` of the tile: half of it has one
// multiplier, half the other.
fn store_weights(words: Words, pair: u32, group: u32, block: u32, own: u32) {
  let at = kWeightStride * (own & 15u) + 8u * (block & 7u);
  let turn = ((own >> 1u) & 1u) | ((block >> 1u) & 2u);
  let bytes = tile_weight(levels_of(words, group, block, own & 7u), pair);
  store_four(own >> 4u, at, bytes.a, turn);
  store_four(own >> 4u, at + 4u, bytes.b, turn);
}

// The thread's 16 bytes of 64 columns of the input at `place`, in step p: of a superblock's eight,
// four are for high bytes and four for low ones, which lie before them in a block.
fn load_input(place: u32, p: u32, t: u32) -> vec4<u32> {
  let block = min(8u * (p >> 3u) + 2u * (p & 3u) + ((t >> 1u) & 1u), op.blocks - 1u);
  return planes[place + 4u * block + select(0u, 2u, (p & 4u) == 0u) + (t & 1u)];
}

// The row of a fragment that a lane has as its e-th.
fn row_of(e: u32, lane: u32) -> u32 {
  return (e & 3u) + 8u * (e >> 2u) + 4u * (lane >> 4u);
}

// Finishes the outputs of half i of the rows, which lie in `mem`: of every 32 rows the first or the
// last 16. A thread has the same row of four neighbouring groups.
fn write_half(i: u32, first_group: u32, t: u32) {
  let own_group = 4u * ((t >> 3u) % kColumnParts);
  for (var half_row = t / (8u * kColumnParts); half_row < kRows / 2u;
       half_row += kThreads / (8u * kColumnParts)) {
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
  let row_part = (t >> 5u) % kRowParts;
  let column_part = (t >> 5u) / kRowParts;
  let sum_part = t >> 6u;  // shared by two subgroups
  let first_sum = 2u * kSums * ((t >> 5u) & 1u);
  // A thread makes bytes of block t % 8 of rows of the matrix, and brings a quarter of 64 columns.
  let n = (t >> 3u) & 7u;
//* each b of kBlocksEach
  let group_$b = group_of_tile(first_group, (t >> 6u) + kThreads / 64u * $bu);
  var words_$b = words_of(group_$b, t & 7u, n);
  var pair_$b = pair_in(group_$b, t & 7u, n);
//* end
  var scale_bits = scale_bits_at(first_group, 0u, t);
//* each r of kInputsEach
  let input_row_$r = (t >> 2u) + kThreads / 4u * $ru;
  let place_$r = input_of_tile(input_row_$r);
  var input_$r = load_input(place_$r, 0u, t);
//* end
//* each i of kTwo
//* each h of kTwo
//* each e of kLaneRows
  var y_$i_$h_$e = 0.0;
//* end
  var sum_$i_$h = subgroup_matrix_result<i32, 16, 16>();
//* end
//* end
  for (var s = 0u; s < superblocks(); s++) {
    workgroupBarrier();
//* each b of kBlocksEach
    store_weights(words_$b, pair_$b, group_$b, 8u * s + (t & 7u), (t >> 3u) + kThreads / 8u * $bu);
//* end
    store_scale(0u, scale_bits, t);
    scale_bits = scale_bits_at(first_group, s + 1u, t);
//* each r of kInputsEach
    store_input(input_row_$r, input_$r, t);
    input_$r = load_input(place_$r, 8u * s + 1u, t);
//* end
//* each b of kBlocksEach
    words_$b = words_of(group_$b, 8u * (s + 1u) + (t & 7u), n);
    pair_$b = pair_in(group_$b, 8u * (s + 1u) + (t & 7u), n);
//* end
    workgroupBarrier();
//* each p of kTwo
//* each c of kFour
//* each k of kTwo
    {
//* each h of kTwo
      let w_$h = subgroupMatrixLoad<Right, col_major>(
        &mem[2u * column_part + $hu], 16u * $cu + 8u * $ku, kWeightStride);
//* end
//* each i of kTwo
      let x_$i = subgroupMatrixLoad<Left, row_major>(
        &inputs[2u * row_part + $iu], 8u * $ku, kInputStride);
//* each h of kTwo
      sum_$i_$h = subgroupMatrixMultiplyAccumulate(x_$i, w_$h, sum_$i_$h);
//* end
//* end
    }
//* end
    workgroupBarrier();
    if ($pu == 0u || $cu < 3u) {
//* each r of kInputsEach
      store_input(input_row_$r, input_$r, t);
      input_$r = load_input(place_$r, 8u * s + 4u * $pu + $cu + 2u, t);
//* end
      workgroupBarrier();
    }
//* end
    if ($pu == 0u) {
//* each i of kTwo
//* each h of kTwo
      sum_$i_$h = subgroupMatrixScalarMultiply(sum_$i_$h, 256);
//* end
//* end
    }
//* end
    let scale_0 = scales[kRows + 32u * column_part + (lane & 15u)];
    let scale_1 = scales[kRows + 32u * column_part + 16u + (lane & 15u)];
//* each i of kTwo
    if ($iu == 1u) {
      workgroupBarrier();
    }
//* each h of kTwo
    if (first_sum == 0u) {
      subgroupMatrixStore<row_major>(&mem[sum_part], kSums * $hu, sum_$i_$h, kSumStride);
    } else {
      subgroupMatrixStore<row_major>(&mem[sum_part], kSums * (2u + $hu), sum_$i_$h, kSumStride);
    }
    sum_$i_$h = subgroup_matrix_result<i32, 16, 16>();
//* end
    workgroupBarrier();
//* each e of kLaneRows
    {
      let scale = scales[32u * row_part + 16u * $iu + row_of($eu, lane)];
      let at = first_sum + kSumStride * row_of($eu, lane) + (lane & 15u);
//* each h of kTwo
      y_$i_$h_$e = fma(rounded(mem[sum_part][at + kSums * $hu]), scale_$h * scale, y_$i_$h_$e);
//* end
    }
//* end
//* end
  }
//* each i of kTwo
  workgroupBarrier();
//* each h of kTwo
//* each e of kLaneRows
  store_output(kColumns * (16u * row_part + row_of($eu, lane)) + 32u * column_part + 16u * $hu +
               (lane & 15u), y_$i_$h_$e);
//* end
//* end
  workgroupBarrier();
  write_half($iu, first_group, t);
//* end
}
