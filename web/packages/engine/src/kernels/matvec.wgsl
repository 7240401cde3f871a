// Product of 1 to kTileRows rows with a matrix, for decoding: weights are read once, 8 rows side by
// side. Thread (r, s) takes blocks s, s + 32, ... of row r of kGroups groups; the 32 partial sums
// of an output are added in rising s. matmul.wgsl adds the same numbers in the same order.
//
// Constants set by kernels/sources.ts: kTileRows, kGroups, kWithNorm (the input is normalised on
// the way in, as norm.wgsl does), kPaired (gate and up), kExperts (the matrix is that of the expert
// which the row's route names; kTileRows is 1).
const kSlices = 32u;

var<workgroup> partial: array<f32, kSlices * 8u * kGroups * kTileRows>;
var<workgroup> inverse_rms: array<f32, kTileRows>;
// 1,024 columns of the tile's rows.
var<workgroup> inputs: array<vec4<f32>, 256u * kTileRows>;

fn input_row(row: u32) -> u32 {
  let last = row_count() * select(1u, op.top_k, kExperts) - 1u;
  let clamped = min(row, last);
  return select(clamped, clamped / op.top_k, kExperts);
}

fn one_or_zero(row: u32, m: u32, k: u32) -> f32 {
  if (k >= op.columns) {
    return 0.0;
  }
  let value = act[op.in_base + row * op.in_stride + k];
  if (kWithNorm) {
    return value * inverse_rms[m] * vectors[op.norm_base + k];
  }
  return value;
}

// Columns k to k + 3 of the input; past its last column zeros.
fn input_four(row: u32, m: u32, k: u32) -> vec4<f32> {
  return vec4(one_or_zero(row, m, k), one_or_zero(row, m, k + 1u), one_or_zero(row, m, k + 2u),
              one_or_zero(row, m, k + 3u));
}

// The same sum as norm.wgsl.
fn measure_rows(first_row: u32, t: u32) {
  for (var m = 0u; m < kTileRows; m++) {
    let base = op.in_base + input_row(first_row + m) * op.in_stride;
    var sum = 0.0;
    for (var k = t; k < op.columns; k += 256u) {
      sum = fma(act[base + k], act[base + k], sum);
    }
    let total = sum_of_threads(t, sum);
    if (t == 0u) {
      inverse_rms[m] = 1.0 / sqrt(total / f32(op.columns) + op.epsilon);
    }
  }
  workgroupBarrier();
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let r = t & 7u;
  let s = t >> 3u;
  let first_row = workgroup.y * kTileRows;
  let first_group = workgroup.x * kGroups;
  var expert = 0u;
  if (kExperts) {
    let slot = first_row % op.top_k;
    expert = u32(act[op.route_base + input_row(first_row) * op.route_stride + slot]);
  }
  if (kWithNorm) {
    measure_rows(first_row, t);
  }
  var sums = array<f32, kGroups * kTileRows>();
  for (var first = 0u; first < op.blocks; first += kSlices) {
    let j = first + s;
    var blocks: array<Block, kGroups>;
    for (var g = 0u; g < kGroups; g++) {
      let group = expert * op.expert_groups + min(first_group + g, op.group_count - 1u);
      blocks[g] = load_block(group * op.blocks + min(j, op.blocks - 1u), r);
    }
    for (var m = 0u; m < kTileRows; m++) {
      inputs[256u * m + t] = input_four(input_row(first_row + m), m, 32u * first + 4u * t);
    }
    workgroupBarrier();
    if (j < op.blocks) {
      var dots = array<f32, kGroups * kTileRows>();
      for (var w = 0u; w < 4u; w++) {
        for (var g = 0u; g < kGroups; g++) {
          let values = eighth(blocks[g], w);
          for (var m = 0u; m < kTileRows; m++) {
            let at = 256u * m + 8u * s + 2u * w;
            let x = Eight(inputs[at], inputs[at + 1u]);
            dots[g * kTileRows + m] = add_products(values, x, dots[g * kTileRows + m]);
          }
        }
      }
      for (var g = 0u; g < kGroups; g++) {
        for (var m = 0u; m < kTileRows; m++) {
          let i = g * kTileRows + m;
          sums[i] = fma(dots[i], blocks[g].scale, sums[i]);
        }
      }
    }
    workgroupBarrier();
  }
  for (var g = 0u; g < kGroups; g++) {
    for (var m = 0u; m < kTileRows; m++) {
      partial[((s * kGroups + g) * 8u + r) * kTileRows + m] = sums[g * kTileRows + m];
    }
  }
  workgroupBarrier();
  write_outputs(first_row, first_group, expert, t);
}

// Sum of the slices of output `local` (group * 8 + row in the group) of tile row m.
fn total_of(local: u32, m: u32) -> f32 {
  var total = 0.0;
  for (var s = 0u; s < kSlices; s++) {
    total = total + partial[(s * kGroups * 8u + local) * kTileRows + m];
  }
  return total;
}

fn write_outputs(first_row: u32, first_group: u32, expert: u32, t: u32) {
  let m = t % kTileRows;
  let local = t / kTileRows;
  let row = first_row + m;
  let rows = row_count() * select(1u, op.top_k, kExperts);
  if (kPaired) {
    let pair = local >> 3u;
    if (pair >= kGroups / 2u || row >= rows || first_group + 2u * pair >= op.group_count) {
      return;
    }
    let gate = total_of(16u * pair + (local & 7u), m);
    let up = total_of(16u * pair + 8u + (local & 7u), m);
    let column = (op.row_first >> 1u) + 8u * ((first_group >> 1u) + pair) + (local & 7u);
    finish_pair(row, column, gate, up, expert * op.expert_bias);
    return;
  }
  let group = first_group + (local >> 3u);
  if ((local >> 3u) >= kGroups || row >= rows || group >= op.group_count) {
    return;
  }
  finish(row, op.row_first + 8u * group + (local & 7u), total_of(local, m));
}
