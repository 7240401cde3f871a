// The same as moe_down.wgsl with matrices of superblocks (walk_superblocks.wgsl): one row and two
// groups a workgroup. quantise_superblocks.wgsl has made integers of what experts put out.
@compute @workgroup_size(kThreads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.y;
  let route = op.route_base + row * op.route_stride;
  let n = kOutputs * workgroup.x + t;
  var mixed = 0.0;
  for (var slot = 0u; slot < op.top_k; slot++) {
    let expert = u32(act_at(route + slot));
    var rows: array<u32, kTileRows>;
    rows[0] = planes_of_row(row * op.top_k + slot);
    var total = output_total(expert * op.expert_groups, kGroups * workgroup.x,
                             op.expert_groups - 1u, t, rows);
    if (t < kOutputs && n < op.segments[0].end) {
      if (kBiased && op.segments[0].bias != kNone) {
        total = total + vector_at(op.segments[0].bias + expert * op.expert_bias + n);
      }
      mixed = fma(act_at(route + op.top_k + slot), on_grid(total), mixed);
    }
  }
  if (t < kOutputs && n < op.segments[0].end) {
    store(row, op.segments[0], n, mixed);
  }
}
