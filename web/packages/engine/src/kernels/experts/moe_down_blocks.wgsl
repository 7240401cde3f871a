// The same as moe_down.wgsl in int16: one row and two groups a workgroup, sums as in
// matvec_blocks.wgsl.
const kWithNorm = false;
const kOutputs = 16u;
const kSumStride = kClasses + 2u;

var<workgroup> class_sums: array<f32, kOutputs * kSumStride>;

// The sums of this lane, of rows `first` to `first` + 3 of the group.
fn lane_sum(base: u32, group: u32, first: u32, t: u32) -> vec4<f32> {
  var sum = vec4<f32>(0.0);
  let steps = (op.blocks + kClasses - 1u) / kClasses;
  for (var step_index = 0u; step_index < steps; step_index++) {
    let b = kClasses * step_index + (t >> 2u);
    let block = min(b, op.blocks - 1u);
    let x = input_block(base, b, t & 3u);
    let zeros = load_zeros(group * op.blocks + block);
    let scales = load_scales(group * op.blocks + block);
    var dots: vec4<f32>;
    for (var r = 0u; r < 4u; r++) {
      let words = load_block(8u * group + first + r, block);
      dots[r] = block_dot(unpacked(words), zeros >> (4u * (first + r)), x) * x.scale;
    }
    sum = fma(dots, select(scales.low, scales.high, first == 4u), sum);
  }
  return sum;
}

@compute @workgroup_size(4u * kClasses)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let q = t & 3u;
  let row = workgroup.y;
  let route = op.route_base + row * op.route_stride;
  let group = min(2u * workgroup.x + (q >> 1u), op.expert_groups - 1u);
  let n = kOutputs * workgroup.x + t;
  var mixed = 0.0;
  for (var slot = 0u; slot < op.top_k; slot++) {
    let expert = u32(act_at(route + slot));
    let base = op.in_base + (row * op.top_k + slot) * op.in_stride;
    let sum = lane_sum(base, expert * op.expert_groups + group, 4u * (q & 1u), t);
    for (var r = 0u; r < 4u; r++) {
      class_sums[(4u * q + r) * kSumStride + (t >> 2u)] = sum[r];
    }
    workgroupBarrier();
    if (t < kOutputs && n < op.segments[0].end) {
      var total = class_sums[t * kSumStride];
      for (var c = 1u; c < kClasses; c++) {
        total = total + class_sums[t * kSumStride + c];
      }
      if (kBiased && op.segments[0].bias != kNone) {
        total = total + vector_at(op.segments[0].bias + expert * op.expert_bias + n);
      }
      mixed = fma(act_at(route + op.top_k + slot), on_grid(total), mixed);
    }
    workgroupBarrier();
  }
  if (t < kOutputs && n < op.segments[0].end) {
    store(row, op.segments[0], n, mixed);
  }
}
