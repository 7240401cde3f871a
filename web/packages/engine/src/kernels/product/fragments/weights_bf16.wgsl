// Weights in bf16, 2 a word: a vec4<u32> is a piece of 8 columns of a row.

fn widened(words: vec4<u32>) -> Eight {
  let low = bitcast<vec4<f32>>(words << vec4<u32>(16u));
  let high = bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
  return Eight(vec4(low.x, high.x, low.y, high.y), vec4(low.z, high.z, low.w, high.w));
}
