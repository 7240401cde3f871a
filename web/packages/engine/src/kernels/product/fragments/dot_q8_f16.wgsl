// Eight q8 weights of each of 8 rows times 8 inputs, in f16: a byte in the mantissa of 1024 is an
// f16 of 1024 + its value.
fn first_columns(x: Eight) -> vec4<f32> {
  return x.low.xzyw;
}

fn last_columns(x: Eight) -> vec4<f32> {
  return x.high.xzyw;
}

fn four(word: u32) -> vec4<f16> {
  let bits = (vec2(word, word >> 8u) & vec2<u32>(0x00ff00ffu)) | vec2<u32>(0x64006400u);
  return bitcast<vec4<f16>>(bits) - vec4<f16>(1152.0h);
}

fn pair_dot(low: u32, high: u32, x: Input) -> f32 {
  return sum_of_chains(fma(four(high), x.last, four(low) * x.first)) * x.scale;
}
