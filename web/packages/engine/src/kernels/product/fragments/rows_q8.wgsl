// The two words of each of 8 rows times the inputs; pair_dot: dot_q8_f32.wgsl, dot_q8_f16.wgsl.
fn rows_dot(w: Words, zeros: u32, x: Input) -> Eight {
  return Eight(
    vec4(pair_dot(w[0].x, w[0].y, x), pair_dot(w[1].x, w[1].y, x), pair_dot(w[2].x, w[2].y, x),
         pair_dot(w[3].x, w[3].y, x)),
    vec4(pair_dot(w[4].x, w[4].y, x), pair_dot(w[5].x, w[5].y, x), pair_dot(w[6].x, w[6].y, x),
         pair_dot(w[7].x, w[7].y, x)));
}
