// The two words of each of 8 rows times the inputs; pair_dot: dot_q8_floats.wgsl, dot_q8_f16.wgsl.
fn rows_dot(w: Words, zeros: u32, x: Input) -> Eight {
  return Eight(
    vec4(pair_dot(w.a.x, w.a.y, x), pair_dot(w.a.z, w.a.w, x), pair_dot(w.b.x, w.b.y, x),
         pair_dot(w.b.z, w.b.w, x)),
    vec4(pair_dot(w.c.x, w.c.y, x), pair_dot(w.c.z, w.c.w, x), pair_dot(w.d.x, w.d.y, x),
         pair_dot(w.d.z, w.d.w, x)));
}
