// Sums of products of superblocks without barriers (matvec_serial.wgsl): the bits of
// walk_superblocks.wgsl.
fn group_sum(group: u32, input_row: u32) -> Eight {
  let row = planes_of_row(input_row);
  var totals: array<f32, 8>;
  for (var superblock = 0u; superblock < superblocks(); superblock++) {
    var sums = array<Sum, 8>();  // said so: one compiler clears a `var` in a loop once alone
    let end = min(8u * superblock + 8u, op.blocks);
    for (var b = 8u * superblock; b < end; b++) {
      let x = block_inputs(row, b, 0u);
      let pairs = pairs_of(group, b);
      for (var r = 0u; r < 8u; r++) {
        let w = levels_of(load_block(8u * group + r, b), group, b, r);
        sums[r] += block_sum(w, pairs[r >> 1u] >> (16u * (r & 1u)), x);
      }
    }
    for (var r = 0u; r < 8u; r++) {
      let least = minima_of(group, superblock, r, row);
      totals[r] = add_superblock(totals[r], sums[r], least, group, superblock, r, row);
    }
  }
  return Eight(vec4(totals[0], totals[1], totals[2], totals[3]),
               vec4(totals[4], totals[5], totals[6], totals[7]));
}

fn inverse_rms(row: u32) -> f32 {
  return planes_inverse_rms(planes_of_row(row));
}
