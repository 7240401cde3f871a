// Product of 1 to kTileRows rows with a matrix, in f32 or f16 (integers: matvec_blocks.wgsl).
// Weights are read once for a tile. A workgroup makes kOutputs outputs of each row, groups of 8
// rows of the matrix side by side. Its lanes lie along the columns: lane l of part s takes pieces
// of 8 columns 32 s + l, 32 (s + kParts) + l, ... in rising order, every piece one dot product
// times its scale; then lanes are summed (lanes_*.wgsl), then parts in rising order. An output's
// bits therefore depend on nothing but its own row, column and matrix.
//
// For instance 1,024 columns with kParts = 4 are 128 pieces for 128 threads, one each: thread 70 is
// lane 6 of part 2 and has piece 70, columns 560 to 567. With 4,096 columns it has pieces 70, 198,
// 326 and 454. Neighbouring threads read neighbouring pieces, and thus neighbouring bytes.
// Splitting the columns (split-K) is what gives a GPU enough threads when there is only one row:
// 1,024 outputs are 64 workgroups of 16 and 8,192 threads, where a thread an output would be 1,024.
//
// Constants set by product/variants.ts: kTileRows, kParts (part of the order of sums: chosen by the
// matrix alone), kWithNorm (the input is normalised on the way in: multiplied by the norm's weights
// here, and the sum by the inverse of the root mean square), kPaired (gate and up), kExperts (the
// matrix is that of the expert which the row's route names; kTileRows is 1), kByHead (the matrix is
// that of head workgroup.z, product.wgsl).
const kOutputs = 8u * kGroups;
const kStride = (kOutputs + 1u) * kTileRows;

// A part has the sums of kOutputs outputs of each row, then the rows' sums of squares.
var<workgroup> lane_sums: array<f32, kParts * kStride>;

fn scaled_sum(sum: Eight, dots: Eight, scales: Eight) -> Eight {
  return Eight(fma(dots.low, scales.low, sum.low), fma(dots.high, scales.high, sum.high));
}

@compute @workgroup_size(32u * kParts)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let part = t >> 5u;
  // Tiles side by side: neighbouring workgroups read the same weights.
  let first_row = select(workgroup.y, workgroup.x, kTileRows > 1u) * kTileRows;
  let first_group = select(workgroup.x, workgroup.y, kTileRows > 1u) * kGroups;
  let pieces = 4u * op.blocks;
  var expert = 0u;
  if (kExperts) {
    let slot = first_row % op.top_k;
    expert = u32(act_at(op.route_base + input_row(first_row) * op.route_stride + slot));
  }
  if (kByHead) {
    own_head = workgroup.z;
    expert = own_head;
  }
  var sums: array<Eight, kGroups * kTileRows>;
  let steps = (pieces + 32u * kParts - 1u) / (32u * kParts);
  for (var step_index = 0u; step_index < steps; step_index++) {
    let p = 32u * (step_index * kParts + part) + (t & 31u);
    let clamped = min(p, pieces - 1u);
    var inputs: array<Input, kTileRows>;
    for (var m = 0u; m < kTileRows; m++) {
      inputs[m] = input_piece(m, input_row(first_row + m), p);
    }
    for (var g = 0u; g < kGroups; g++) {
      let group = expert * op.expert_groups + min(first_group + g, op.group_count - 1u);
      let words = load_words(group, clamped, pieces);
      let scales = load_scales(group * op.blocks + (clamped >> 2u));
      let zeros = load_zeros(group * op.blocks + (clamped >> 2u));
      for (var m = 0u; m < kTileRows; m++) {
        let i = kGroups * m + g;
        sums[i] = scaled_sum(sums[i], rows_dot(words, zeros, inputs[m]), scales);
      }
    }
  }
  for (var i = 0u; i < kGroups * kTileRows; i++) {
    sum_rows(sums[i], t, part * kStride + 8u * i);
  }
  close_inputs(t);
  workgroupBarrier();
  if (kOutputs * kTileRows <= 32u * kParts) {
    if (t < kOutputs * kTileRows) {
      write_output(first_row + t / kOutputs, t / kOutputs, first_group, t % kOutputs, expert);
    }
    return;
  }
  for (var i = t; i < kOutputs * kTileRows; i += 32u * kParts) {
    write_output(first_row + i / kOutputs, i / kOutputs, first_group, i % kOutputs, expert);
  }
}

// Finishes output `local` (group * 8 + row in the group) of tile row m.
fn write_output(row: u32, m: u32, first_group: u32, local: u32, expert: u32) {
  let group = first_group + (local >> 3u);
  if (row > last_row() || group >= op.group_count) {
    return;
  }
  let factor = inverse_rms(m, row);
  let total = sum_of_parts(kOutputs * m + local) * factor;
  if (!kPaired) {
    let n = op.row_first + 8u * group + (local & 7u);
    if (kExperts) {
      finish_pair(row, n, total, total, expert * op.expert_bias);
    } else {
      finish(row, n, total);
    }
  } else if ((local & 8u) == 0u) {
    let up = sum_of_parts(kOutputs * m + 8u + local) * factor;
    finish_pair(row, (op.row_first >> 1u) + 4u * group + (local & 7u), total, up,
                expert * op.expert_bias);
  }
}
