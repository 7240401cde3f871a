// Product of many rows with a matrix, for prompts: tiles of 32 rows and 64 matrix rows in workgroup
// memory. Every output adds the same numbers in the same order as matvec.wgsl: blocks s, s + 32,
// ... of slice s into one sum, then the slices' sums in rising s.
//
// Constant set by kernels/sources.ts: kPaired.
const kSlices = 32u;
const kPitch = 65u;  // of a tile line, so that threads hit different banks

var<workgroup> inputs: array<f32, 32u * 33u>;   // [column][row]
var<workgroup> values: array<f32, 32u * kPitch>;  // [column][matrix row]
var<workgroup> scales: array<f32, 64>;

fn load_tile(first_row: u32, first_group: u32, j: u32, t: u32) {
  let row = min(first_row + (t >> 3u), row_count() - 1u);
  for (var i = 0u; i < 4u; i++) {
    let k = 4u * (t & 7u) + i;
    var x = 0.0;
    if (32u * j + k < op.columns) {
      x = act[op.in_base + row * op.in_stride + 32u * j + k];
    }
    inputs[k * 33u + (t >> 3u)] = x;
  }
  let n = t >> 2u;
  let group = min(first_group + (n >> 3u), op.group_count - 1u);
  let block = load_block(group * op.blocks + j, n & 7u);
  let part = eighth(block, t & 3u);
  for (var e = 0u; e < 4u; e++) {
    values[(8u * (t & 3u) + e) * kPitch + n] = part.low[e];
    values[(8u * (t & 3u) + 4u + e) * kPitch + n] = part.high[e];
  }
  if ((t & 3u) == 0u) {
    scales[n] = block.scale;
  }
}

// The tile's matrix rows of a thread: i = 0, 1 are rows r of two neighbouring groups, as are 2, 3.
fn tile_row(c: u32, i: u32) -> u32 {
  return ((c >> 3u) + 2u * (i >> 1u)) * 16u + (i & 1u) * 8u + (c & 7u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let first_row = workgroup.y * 32u;
  let first_group = workgroup.x * 8u;
  let c = t & 15u;
  let q = t >> 4u;
  var totals = array<f32, 8>();
  for (var s = 0u; s < min(kSlices, op.blocks); s++) {
    var sums = array<f32, 8>();
    for (var j = s; j < op.blocks; j += kSlices) {
      load_tile(first_row, first_group, j, t);
      workgroupBarrier();
      var dots = array<f32, 8>();
      for (var k = 0u; k < 32u; k++) {
        let x0 = inputs[k * 33u + q];
        let x1 = inputs[k * 33u + q + 16u];
        for (var i = 0u; i < 4u; i++) {
          let value = values[k * kPitch + tile_row(c, i)];
          dots[i] = fma(value, x0, dots[i]);
          dots[4u + i] = fma(value, x1, dots[4u + i]);
        }
      }
      for (var i = 0u; i < 8u; i++) {
        sums[i] = fma(dots[i], scales[tile_row(c, i & 3u)], sums[i]);
      }
      workgroupBarrier();
    }
    for (var i = 0u; i < 8u; i++) {
      totals[i] = totals[i] + sums[i];
    }
  }
  for (var half = 0u; half < 2u; half++) {
    let row = first_row + q + 16u * half;
    if (row >= row_count()) {
      continue;
    }
    for (var i = 0u; i < 4u; i += 2u) {
      let at = 4u * half + i;
      write_two(row, first_group, tile_row(c, i), totals[at], totals[at + 1u]);
    }
  }
}

fn write_two(row: u32, first_group: u32, local: u32, a: f32, b: f32) {
  let group = first_group + (local >> 3u);
  if (group >= op.group_count) {
    return;
  }
  if (kPaired) {
    finish_pair(row, (op.row_first >> 1u) + 8u * (group >> 1u) + (local & 7u), a, b, 0u);
    return;
  }
  finish(row, op.row_first + 8u * group + (local & 7u), a);
  if (group + 1u < op.group_count) {
    finish(row, op.row_first + 8u * (group + 1u) + (local & 7u), b);
  }
}
