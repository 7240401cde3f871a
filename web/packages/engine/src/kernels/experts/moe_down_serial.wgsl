// The same as moe_down.wgsl without barriers: an invocation makes the 8 outputs of a group for one
// row.
const kWithNorm = false;

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= op.expert_groups) {
    return;
  }
  let route = op.route_base + id.y * op.route_stride;
  var mixed: array<f32, 8>;
  for (var slot = 0u; slot < op.top_k; slot++) {
    let expert = u32(act_at(route + slot));
    let sum = group_sum(expert * op.expert_groups + id.x, id.y * op.top_k + slot);
    let weight = act_at(route + op.top_k + slot);
    for (var r = 0u; r < 8u; r++) {
      let n = 8u * id.x + r;
      var total = select(sum.low[r & 3u], sum.high[r & 3u], r >= 4u);
      if (kBiased && op.segments[0].bias != kNone && n < op.segments[0].end) {
        total = total + vector_at(op.segments[0].bias + expert * op.expert_bias + n);
      }
      mixed[r] = fma(weight, on_grid(total), mixed[r]);
    }
  }
  for (var r = 0u; r < 8u; r++) {
    let n = 8u * id.x + r;
    if (n < op.segments[0].end) {
      store(id.y, op.segments[0], n, mixed[r]);
    }
  }
}
