// Weights in bf16, 2 a word: a piece of 8 rows is eight vec4<u32>, one a row.
const kVecs = 8u;

fn widened(words: vec4<u32>) -> Eight {
  let low = bitcast<vec4<f32>>(words << vec4<u32>(16u));
  let high = bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
  return Eight(vec4(low.x, high.x, low.y, high.y), vec4(low.z, high.z, low.w, high.w));
}
