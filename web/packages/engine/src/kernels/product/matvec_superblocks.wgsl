// Product of 1 to kTileRows rows with a matrix of superblocks (walk_superblocks.wgsl), whose inputs
// quantise_superblocks.wgsl has made integers of. matmul_superblocks.wgsl gives the same bits for
// many rows. Constants as in matvec.wgsl.
var<workgroup> totals: array<f32, kOutputs * kTileRows>;

@compute @workgroup_size(kThreads)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  // Tiles side by side: neighbouring workgroups read the same weights.
  let first_row = select(workgroup.y, workgroup.x, kTileRows > 1u) * kTileRows;
  let first_group = select(workgroup.x, workgroup.y, kTileRows > 1u) * kGroups;
  var expert = 0u;
  if (kExperts) {
    let slot = first_row % op.top_k;
    expert = u32(act_at(op.route_base + input_row(first_row) * op.route_stride + slot));
  }
  if (kByHead) {
    own_head = workgroup.z;
    expert = own_head;
  }
  var rows: array<u32, kTileRows>;
  for (var m = 0u; m < kTileRows; m++) {
    rows[m] = place_of_row(input_row(first_row + m));
  }
  let total = output_total(expert * op.expert_groups, first_group, op.group_count - 1u, t, rows);
  if (t < kOutputs * kTileRows) {
    totals[t] = total * planes_inverse_rms(rows[t / kOutputs]);
  }
  workgroupBarrier();
  if (t < kOutputs * kTileRows) {
    write_output(first_row + t / kOutputs, first_group, t, expert);
  }
}

// Finishes output `at` (group * 8 + row in the group) of the rows of the tile.
fn write_output(row: u32, first_group: u32, at: u32, expert: u32) {
  let local = at % kOutputs;
  let group = first_group + (local >> 3u);
  if (row > last_row() || group >= op.group_count) {
    return;
  }
  if (!kPaired) {
    let n = op.row_first + 8u * group + (local & 7u);
    if (kExperts) {
      finish_pair(row, n, totals[at], totals[at], expert * op.expert_bias);
    } else {
      finish(row, n, totals[at]);
    }
  } else if ((local & 8u) == 0u) {
    finish_pair(row, (op.row_first >> 1u) + 4u * group + (local & 7u), totals[at],
                totals[at + 8u], expert * op.expert_bias);
  }
}
