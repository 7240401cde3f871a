// A sum over the parts of a product (matvec.wgsl), in rising order.
fn sum_of_parts(at: u32) -> f32 {
  var total = lane_sums[at];
  for (var part = 1u; part < kParts; part++) {
    total = total + lane_sums[part * kStride + at];
  }
  return total;
}
