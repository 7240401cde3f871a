// Eight q4 weights of each of 8 rows times 8 inputs, in integers.
fn select_planes(low: vec4<u32>, high: vec4<u32>, is_first: bool) -> Planes {
  if (is_first) {
    return planes_of(low.x, low.z, high.x, high.z);
  }
  return planes_of(low.y, low.w, high.y, high.w);
}

fn word_dot(word: u32, zero: u32, x: Input) -> f32 {
  let even = word & 0x0f0f0f0fu;
  let odd = (word >> 4u) & 0x0f0f0f0fu;
  let low = dot4U8Packed(even, x.low.x) + dot4U8Packed(odd, x.low.y);
  let high = dot4I8Packed(even, x.high.x) + dot4I8Packed(odd, x.high.y);
  return f32((high << 8u) + i32(low) - i32(zero & 15u) * x.sum) * x.scale;
}
