// The last step of a split product (matvec.wgsl): a sum over the parts, in rising order. The parts
// of one row lie kStride apart in workgroup memory.
fn sum_of_parts(at: u32) -> f32 {
  var total = lane_sums[at];
  for (var part = 1u; part < kParts; part++) {
    total = total + lane_sums[part * kStride + at];
  }
  return total;
}
