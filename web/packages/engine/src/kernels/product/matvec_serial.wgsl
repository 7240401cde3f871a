// The same as matvec.wgsl without barriers: an invocation makes the 8 outputs of a group (kPaired:
// of a gate group and its up group) for one row, alone (serial.wgsl).
@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let groups = select(1u, 2u, kPaired);
  let first_group = groups * id.x;
  if (first_group >= op.group_count) {
    return;
  }
  let row = select(id.y, id.y / op.top_k, kExperts);
  var expert = 0u;
  if (kExperts) {
    expert = u32(act_at(op.route_base + row * op.route_stride + id.y % op.top_k));
  }
  if (kByHead) {
    own_head = id.z;
    expert = own_head;
  }
  let group = expert * op.expert_groups + first_group;
  let factor = inverse_rms(row);
  let sum = group_sum(group, row);
  if (!kPaired) {
    for (var r = 0u; r < 8u; r++) {
      let total = select(sum.low[r & 3u], sum.high[r & 3u], r >= 4u) * factor;
      let n = op.row_first + 8u * first_group + r;
      if (kExperts) {
        finish_pair(id.y, n, total, total, expert * op.expert_bias);
      } else {
        finish(id.y, n, total);
      }
    }
    return;
  }
  let up_sum = group_sum(group + 1u, row);
  for (var r = 0u; r < 8u; r++) {
    let gate = select(sum.low[r & 3u], sum.high[r & 3u], r >= 4u) * factor;
    let up = select(up_sum.low[r & 3u], up_sum.high[r & 3u], r >= 4u) * factor;
    let column = (op.row_first >> 1u) + 4u * first_group + r;
    finish_pair(id.y, column, gate, up, expert * op.expert_bias);
  }
}
