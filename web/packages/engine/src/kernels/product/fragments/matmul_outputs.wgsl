// Outputs of row n of four neighbouring groups.
fn write_row(row: u32, group: u32, n: u32, sums: vec4<f32>) {
  if (row > last_row()) {
    return;
  }
  let totals = sums * planes_inverse_rms(planes_of_row(row));
  for (var j = 0u; j < 4u; j++) {
    if (group + j >= op.group_count) {
      return;
    }
    if (!kPaired) {
      finish(row, op.row_first + 8u * (group + j) + n, totals[j]);
    } else if ((j & 1u) == 0u) {
      finish_pair(row, (op.row_first >> 1u) + 4u * (group + j) + n, totals[j], totals[j + 1u], 0u);
    }
  }
}
