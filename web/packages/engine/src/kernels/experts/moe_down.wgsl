// The second half of moe_experts: out = sum over the row's experts, in order of the route, of
// weight * (down_e * hidden_e + bias_e). One row and two groups a workgroup, sums as in
// matvec.wgsl.
const kStride = 16u;

var<workgroup> lane_sums: array<f32, kParts * kStride>;

// The sums of this lane for expert `expert` and its input at `base`.
fn lane_sum(base: u32, group: u32, t: u32) -> Eight {
  let pieces = 4u * op.blocks;
  var sum = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
  for (var p = t; p < pieces; p += 32u * kParts) {
    let x = prepared(act_eight(base, 8u * p));
    let words = load_words(group, p, pieces);
    let block = group * op.blocks + (p >> 2u);
    let dots = rows_dot(words, load_zeros(block), x);
    let scales = load_scales(block);
    sum = Eight(fma(dots.low, scales.low, sum.low), fma(dots.high, scales.high, sum.high));
  }
  return sum;
}

@compute @workgroup_size(32u * kParts)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let part = t >> 5u;
  let row = workgroup.y;
  let route = op.route_base + row * op.route_stride;
  let n = 16u * workgroup.x + t;
  var mixed = 0.0;
  for (var slot = 0u; slot < op.top_k; slot++) {
    let expert = u32(act_at(route + slot));
    let base = op.in_base + (row * op.top_k + slot) * op.in_stride;
    for (var g = 0u; g < 2u; g++) {
      let group = min(2u * workgroup.x + g, op.expert_groups - 1u);
      let sum = lane_sum(base, expert * op.expert_groups + group, t);
      sum_rows(sum, t, part * kStride + 8u * g);
    }
    workgroupBarrier();
    if (t < 16u && n < op.segments[0].end) {
      var total = sum_of_parts(t);
      if (kBiased && op.segments[0].bias != kNone) {
        total = total + vector_at(op.segments[0].bias + expert * op.expert_bias + n);
      }
      mixed = fma(act_at(route + op.top_k + slot), on_grid(total), mixed);
    }
    workgroupBarrier();
  }
  if (t < 16u && n < op.segments[0].end) {
    store(row, op.segments[0], n, mixed);
  }
}
