// Outputs of row r of the tile and row n of four neighbouring groups.
fn write_row(r: u32, group: u32, n: u32, sums: vec4<f32>) {
  if (!has_row(r)) {
    return;
  }
  let row = row_of_tile(r);
  let totals = sums * planes_inverse_rms(input_of_tile(r));
  let bias_shift = own_head * op.expert_bias;
  for (var j = 0u; j < 4u; j++) {
    if (group + j >= op.group_count) {
      return;
    }
    let column = op.row_first + 8u * (group + j) + n;
    if (kPaired) {
      if ((j & 1u) == 0u) {
        finish_pair(row, (op.row_first >> 1u) + 4u * (group + j) + n, totals[j], totals[j + 1u],
                    bias_shift);
      }
    } else if (kExperts) {
      finish_pair(row, column, totals[j], totals[j], bias_shift);
    } else {
      finish(row, column, totals[j]);
    }
  }
}
