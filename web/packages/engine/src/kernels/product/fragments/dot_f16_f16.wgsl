// Eight f16 weights of each of 8 rows times 8 inputs, in f16. Weights beyond 1,000 may overflow a
// chain: their eight are multiplied once more in f32.
fn first_columns(x: Eight) -> vec4<f32> {
  return x.low;
}

fn last_columns(x: Eight) -> vec4<f32> {
  return x.high;
}

fn row_dot(words: vec4<u32>, x: Input) -> f32 {
  let first = bitcast<vec4<f16>>(words.xy) * x.first;
  var sum = sum_of_chains(fma(bitcast<vec4<f16>>(words.zw), x.last, first));
  if (!is_finite(sum)) {
    sum = dot_eight(widened(words), Eight(vec4<f32>(x.first), vec4<f32>(x.last)));
  }
  return sum * x.scale;
}

fn rows_dot(words: Words, zeros: u32, x: Input) -> Eight {
  return Eight(
    vec4(row_dot(words[0], x), row_dot(words[1], x), row_dot(words[2], x), row_dot(words[3], x)),
    vec4(row_dot(words[4], x), row_dot(words[5], x), row_dot(words[6], x), row_dot(words[7], x)));
}
