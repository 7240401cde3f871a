// The second half of moe_experts: out = sum over the row's experts, in order of the route, of
// weight * (down_e * hidden_e + bias_e). One row a workgroup, sums as in matvec.wgsl.
const kSlices = 32u;

var<workgroup> partial: array<f32, 256u * kGroups>;

fn one_or_zero(input: u32, k: u32) -> f32 {
  if (k >= op.columns) {
    return 0.0;
  }
  return act[input + k];
}

fn input_at(input: u32, k: u32) -> Eight {
  return Eight(
    vec4(one_or_zero(input, k), one_or_zero(input, k + 1u), one_or_zero(input, k + 2u),
         one_or_zero(input, k + 3u)),
    vec4(one_or_zero(input, k + 4u), one_or_zero(input, k + 5u), one_or_zero(input, k + 6u),
         one_or_zero(input, k + 7u)));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let r = t & 7u;
  let s = t >> 3u;
  let row = workgroup.y;
  let first_group = workgroup.x * kGroups;
  let route = op.route_base + row * op.route_stride;
  var mixed = 0.0;
  for (var slot = 0u; slot < op.top_k; slot++) {
    let expert = u32(act[route + slot]);
    let input = op.in_base + (row * op.top_k + slot) * op.in_stride;
    var sums = array<f32, kGroups>();
    for (var j = s; j < op.blocks; j += kSlices) {
      for (var g = 0u; g < kGroups; g++) {
        let group = expert * op.expert_groups + min(first_group + g, op.expert_groups - 1u);
        let block = load_block(group * op.blocks + j, r);
        var d = 0.0;
        for (var w = 0u; w < 4u; w++) {
          d = add_products(eighth(block, w), input_at(input, 32u * j + 8u * w), d);
        }
        sums[g] = fma(d, block.scale, sums[g]);
      }
    }
    for (var g = 0u; g < kGroups; g++) {
      partial[(s * kGroups + g) * 8u + r] = sums[g];
    }
    workgroupBarrier();
    let n = 8u * first_group + t;
    if (t < 8u * kGroups && n < op.segments[0].end) {
      var total = 0.0;
      for (var slice = 0u; slice < kSlices; slice++) {
        total = total + partial[slice * kGroups * 8u + t];
      }
      if (op.segments[0].bias != kNone) {
        total = total + vectors[op.segments[0].bias + expert * op.expert_bias + n];
      }
      mixed = fma(act[route + op.top_k + slot], total, mixed);
    }
    workgroupBarrier();
  }
  let n = 8u * first_group + t;
  if (t < 8u * kGroups && n < op.segments[0].end) {
    store(row, op.segments[0], n, mixed);
  }
}
