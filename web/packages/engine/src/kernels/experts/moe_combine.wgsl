// The last part of experts whose rows lay together: out = sum over the row's experts, in order of
// the route, of weight * (total + bias), where a product left the totals of every pair of row and
// slot at `in`. The bits are those of moe_down.wgsl. Pairs of weight 0 have no totals.
const kWithNorm = false;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let n = id.x;
  let row = id.y;
  if (n >= op.segments[0].end) {
    return;
  }
  let route = op.route_base + row * op.route_stride;
  var mixed = 0.0;
  for (var slot = 0u; slot < op.top_k; slot++) {
    let weight = act_at(route + op.top_k + slot);
    if (weight != 0.0) {
      var total = act_at(op.in_base + (row * op.top_k + slot) * op.in_stride + n);
      if (kBiased && op.segments[0].bias != kNone) {
        let expert = u32(act_at(route + slot));
        total = total + vector_at(op.segments[0].bias + expert * op.expert_bias + n);
      }
      mixed = fma(weight, on_grid(total), mixed);
    }
  }
  store(row, op.segments[0], n, mixed);
}
