// What the integers of a superblock of inputs are scaled by, and the order of sums of squares.
// Eight columns are a piece, four pieces a block, eight blocks a superblock. Neighbours are added
// first, then neighbours of those, then superblocks in rising order.
const kNotFinite = 0x7f800000u;  // bits of a magnitude from here on

// The bits of the largest magnitude. As whole numbers, so that what is not finite is the largest.
fn magnitude_of(x: Eight) -> u32 {
  let most = max(bitcast<vec4<u32>>(abs(x.low)), bitcast<vec4<u32>>(abs(x.high)));
  return max(max(most.x, most.y), max(most.z, most.w));
}

fn exponent_of_bits(bits: u32) -> u32 {
  return clamp(bits >> 23u, 40u, 254u);
}

// Of a superblock whose largest magnitude has these bits.
fn scale_of_bits(bits: u32) -> f32 {
  let scale = bitcast<u32>(bitcast<f32>((exponent_of_bits(bits) - 14u) << 23u) * kInverseHeadroom);
  return bitcast<f32>(select(scale, 0x7fc00000u, bits >= kNotFinite));
}

// The sum of squares of a piece, as the model has it before its norm.
fn squares_of_piece(base: u32, p: u32) -> f32 {
  squares = 0.0;
  add_squares(base, p);
  return squares;
}
