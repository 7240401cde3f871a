// Eight q4 weights of each of 8 rows times 8 inputs, in f32. A nibble in the mantissa of 2^23 is an
// f32 of its own value times 16^i; the inputs carry 16^-i, so that nothing is shifted or converted
// and every product is exact.
alias Input = Eight;

fn prepared(x: Eight) -> Input {
  let powers = vec4(1.0, 0.0625, 0.00390625, 0.000244140625);
  return Eight(x.low * powers, x.high * powers);
}

fn four(bits: u32, zero: vec4<f32>, x: vec4<f32>, sum: f32) -> f32 {
  let q = bitcast<vec4<f32>>(
    (vec4<u32>(bits) & vec4(0xfu, 0xf0u, 0xf00u, 0xf000u)) | vec4<u32>(0x4b000000u)) - zero;
  return fma(q.w, x.w, fma(q.z, x.z, fma(q.y, x.y, fma(q.x, x.x, sum))));
}

fn word_dot(word: u32, zero: u32, x: Input) -> f32 {
  let z = vec4<f32>(8388608.0) + f32(zero & 15u) * vec4(1.0, 16.0, 256.0, 4096.0);
  return four(word >> 16u, z, x.high, four(word, z, x.low, 0.0));
}
