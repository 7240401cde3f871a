// Eight q4 weights of each of 8 rows times 8 inputs, in f16: a nibble in the mantissa of 1024 is an
// f16 of 1024 + its value.
fn first_columns(x: Eight) -> vec4<f32> {
  return vec4(x.low.x, x.high.x, x.low.y, x.high.y);
}

fn last_columns(x: Eight) -> vec4<f32> {
  return vec4(x.low.z, x.high.z, x.low.w, x.high.w);
}

fn four(word: u32, zero: vec4<f16>) -> vec4<f16> {
  let bits = (vec2(word, word >> 4u) & vec2<u32>(0x000f000fu)) | vec2<u32>(0x64006400u);
  return bitcast<vec4<f16>>(bits) - zero;
}

fn word_dot(word: u32, zero: u32, x: Input) -> f32 {
  let z = vec4<f16>(f16(f32(1024u + (zero & 15u))));
  return sum_of_chains(fma(four(word >> 8u, z), x.last, four(word, z) * x.first)) * x.scale;
}
