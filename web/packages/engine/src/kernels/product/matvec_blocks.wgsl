// Product of 1 to kTileRows rows with a matrix in int16 (prepare_int16.wgsl). Blocks of 32 columns
// are dealt out to kClasses classes: class c has blocks c, c + kClasses, ..., added in this order,
// each its exact dot product times its scales; then classes are added in rising order. An output's
// bits therefore depend on nothing but its own row, column and matrix. matmul.wgsl gives the same
// bits for many rows, serial_blocks.wgsl without barriers.
//
// A workgroup makes kOutputs outputs of each row. Four lanes share a class; each has a quarter of
// the outputs. For instance 1,024 columns are 32 blocks, with kClasses = 32 one for each class: a
// workgroup of 128 threads makes 32 outputs, and thread 22 (lane 2 of class 5) multiplies block 5
// of the inputs with block 5 of outputs 16 to 23. With 3,072 columns class 5 has blocks 5, 37 and
// 69.
//
//   output[n] = sum over c of (sum over the blocks b of class c of
//                 scale[n, b] * input_scale[b] * sum over k in b of (q[n, k] - zero[n, b]) * x[k])
//
// Constants set by product/variants.ts: kTileRows, kClasses (part of the order of sums: chosen by
// the matrix alone), kWithNorm, kPaired, kExperts, kByHead as in matvec.wgsl.
const kRoundRows = min(kTileRows, 2u);  // whose sums lie in workgroup memory at once
const kSumStride = kClasses + 2u;  // so that lanes hit different banks

var<workgroup> class_sums: array<f32, kOutputs * kRoundRows * kSumStride>;

@compute @workgroup_size(4u * kClasses)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let class_index = t >> 2u;
  let q = t & 3u;
  // Tiles side by side: neighbouring workgroups read the same weights.
  let first_row = select(workgroup.y, workgroup.x, kTileRows > 1u) * kTileRows;
  let first_group = select(workgroup.x, workgroup.y, kTileRows > 1u) * kGroups;
  var expert = 0u;
  if (kExperts) {
    let slot = first_row % op.top_k;
    expert = u32(act_at(op.route_base + input_row(first_row) * op.route_stride + slot));
  }
  if (kByHead) {
    own_head = workgroup.z;
    expert = own_head;
  }
  let first_local = kLaneRows * q;
  let own_group = min(first_group + (first_local >> 3u), op.group_count - 1u);
  let group = expert * op.expert_groups + own_group;
  let first = first_local & 7u;
  var sums: array<f32, kLaneRows * kTileRows>;
  let steps = (op.blocks + kClasses - 1u) / kClasses;
  for (var step_index = 0u; step_index < steps; step_index++) {
    let b = kClasses * step_index + class_index;
    let block = min(b, op.blocks - 1u);
    let zeros = load_zeros(group * op.blocks + block) >> (4u * first);
    let scales = lane_halves(wscale[group * op.blocks + block], q);
    var weights: array<Words, kLaneRows>;
    for (var r = 0u; r < kLaneRows; r++) {
      weights[r] = load_block(8u * group + first + r, block);
    }
    for (var m = 0u; m < kTileRows; m++) {
      let x = input_block(place_of_row(input_row(first_row + m)), b, q);
      for (var r = 0u; r < kLaneRows; r++) {
        let dot = block_dot(unpacked(weights[r]), zeros >> (4u * r), x);
        let scale = unpack2x16float(scales[r >> 1u])[r & 1u];
        sums[kLaneRows * m + r] = fma(dot * x.scale, scale, sums[kLaneRows * m + r]);
      }
    }
  }
  close_inputs(class_index, q, t);
  for (var m = 0u; m < kTileRows; m += kRoundRows) {
    if (m > 0u) {
      workgroupBarrier();
    }
    for (var i = 0u; i < kRoundRows; i++) {
      for (var r = 0u; r < kLaneRows; r++) {
        let at = (kOutputs * i + first_local + r) * kSumStride;
        class_sums[at + class_index] = sums[kLaneRows * (m + i) + r];
      }
    }
    workgroupBarrier();
    if (t < kOutputs * kRoundRows) {
      write_output(first_row + m + t / kOutputs, first_group, t, expert);
    }
  }
}

fn sum_of_classes(local: u32) -> f32 {
  var total = class_sums[local * kSumStride];
  for (var c = 1u; c < kClasses; c++) {
    total = total + class_sums[local * kSumStride + c];
  }
  return total;
}

// Finishes output `at` (group * 8 + row in the group) of the rows of this round.
fn write_output(row: u32, first_group: u32, at: u32, expert: u32) {
  let local = at % kOutputs;
  let group = first_group + (local >> 3u);
  if (row > last_row() || group >= op.group_count) {
    return;
  }
  let factor = inverse_rms(place_of_row(row));
  let total = sum_of_classes(at) * factor;
  if (!kPaired) {
    let n = op.row_first + 8u * group + (local & 7u);
    if (kExperts) {
      finish_pair(row, n, total, total, expert * op.expert_bias);
    } else {
      finish(row, n, total);
    }
  } else if ((local & 8u) == 0u) {
    let up = sum_of_classes(at + 8u) * factor;
    finish_pair(row, (op.row_first >> 1u) + 4u * group + (local & 7u), total, up,
                expert * op.expert_bias);
  }
}
