// Eight q8 weights of each of 8 rows times 8 inputs, in f32: bytes in the mantissa of 2^23, as
// dot_q4_f32.wgsl has nibbles.
alias Input = Eight;

fn prepared(x: Eight) -> Input {
  let powers = vec4(1.0, 0.00390625, 1.0, 0.00390625);
  return Eight(x.low * powers, x.high * powers);
}

fn four(word: u32, x: vec4<f32>, sum: f32) -> f32 {
  let bits = vec4(word, word, word >> 16u, word >> 16u) & vec4(0xffu, 0xff00u, 0xffu, 0xff00u);
  let q = bitcast<vec4<f32>>(bits | vec4<u32>(0x4b000000u)) -
    vec4(8388736.0, 8421376.0, 8388736.0, 8421376.0);
  return fma(q.w, x.w, fma(q.z, x.z, fma(q.y, x.y, fma(q.x, x.x, sum))));
}

fn pair_dot(low: u32, high: u32, x: Input) -> f32 {
  return four(high, x.high, four(low, x.low, 0.0));
}
