// Eight inputs in f16, scaled by a power of two so that the largest lies between 4 and 8. With
// weights of up to 128 a chain of products stays below 2^13. In which order columns stand in a vec4
// the weights decide (dot_*_f16.wgsl); an input's error is 2^-11 of its own.
struct Input {
  first: vec4<f16>,
  last: vec4<f16>,
  scale: f32,
}

fn prepared(x: Eight) -> Input {
  let bits = max(bitcast<vec4<u32>>(x.low) & vec4<u32>(0x7fffffffu),
                 bitcast<vec4<u32>>(x.high) & vec4<u32>(0x7fffffffu));
  let largest = max(max(bits.x, bits.y), max(bits.z, bits.w)) >> 23u;
  let exponent = clamp(largest, 40u, 254u);
  let factor = bitcast<f32>((256u - exponent) << 23u);
  let scale = bitcast<f32>(select((exponent - 2u) << 23u, 0x7fc00000u, largest == 255u));
  return Input(vec4<f16>(first_columns(x) * factor), vec4<f16>(last_columns(x) * factor), scale);
}

// Four chains of products are added in f32.
fn sum_of_chains(chains: vec4<f16>) -> f32 {
  let wide = vec4<f32>(chains);
  return (wide.x + wide.y) + (wide.z + wide.w);
}
