// The bits of matvec_superblocks.wgsl without barriers: an invocation makes the 8 outputs of a
// group (kPaired: of a gate group and its up group) for one row, alone.
fn group_totals(group: u32, row: u32) -> array<f32, 8> {
  var totals: array<f32, 8>;
  for (var superblock = 0u; superblock < superblocks(); superblock++) {
    var sums = array<i32, 8>();  // said so: one compiler clears a `var` in a loop once alone
    let end = min(8u * superblock + 8u, op.blocks);
    for (var b = 8u * superblock; b < end; b++) {
      let at = row + 4u * b;
      let low_a = planes[at];
      let low_b = planes[at + 1u];
      let high_a = planes[at + 2u];
      let high_b = planes[at + 3u];
      let zeros = -8 * half_sums(row, b);
      let pairs = wscale[group * op.blocks + b];
      for (var r = 0u; r < 8u; r++) {
        let by = multipliers_of(pairs[r >> 1u] >> (16u * (r & 1u)));
        let w = unpacked(load_block(8u * group + r, b));
        let a = (dot_of_four(w.a, high_a) << 8u) + dot_of_four(w.a, low_a) + zeros.x;
        let c = (dot_of_four(w.b, high_b) << 8u) + dot_of_four(w.b, low_b) + zeros.y;
        sums[r] += by.x * a + by.y * c;
      }
    }
    let scale = input_scale(row, superblock);
    for (var r = 0u; r < 8u; r++) {
      totals[r] = fma(rounded(sums[r]), weight_scale(group, superblock, r) * scale, totals[r]);
    }
  }
  let factor = inverse_rms(row);
  for (var r = 0u; r < 8u; r++) {
    totals[r] = totals[r] * factor;
  }
  return totals;
}

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
  let place = planes_of_row(row);
  var totals = group_totals(group, place);
  if (!kPaired) {
    for (var r = 0u; r < 8u; r++) {
      let n = op.row_first + 8u * first_group + r;
      if (kExperts) {
        finish_pair(id.y, n, totals[r], totals[r], expert * op.expert_bias);
      } else {
        finish(id.y, n, totals[r]);
      }
    }
    return;
  }
  var ups = group_totals(group + 1u, place);
  for (var r = 0u; r < 8u; r++) {
    let column = (op.row_first >> 1u) + 4u * first_group + r;
    finish_pair(id.y, column, totals[r], ups[r], expert * op.expert_bias);
  }
}
