// Eight q8 weights of each of 8 rows times 8 inputs, in integers.
fn select_planes(low: vec4<u32>, high: vec4<u32>, is_first: bool) -> Planes {
  let v = select(high, low, is_first);
  return planes_of(v.x, v.y, v.z, v.w);
}

fn pair_dot(first: u32, last: u32, x: Input, low_sum: i32) -> f32 {
  let low = dot4U8Packed(first, x.low.x) + dot4U8Packed(last, x.low.y);
  let high = dot4I8Packed(first ^ 0x80808080u, x.high.x) +
    dot4I8Packed(last ^ 0x80808080u, x.high.y);
  return f32((high << 8u) + i32(low) - 128 * low_sum) * x.scale;
}

fn rows_dot(w: Words, zeros: u32, x: Input) -> Eight {
  let s = i32(dot4U8Packed(x.low.x, 0x01010101u) + dot4U8Packed(x.low.y, 0x01010101u));
  return Eight(
    vec4(pair_dot(w.a.x, w.a.y, x, s), pair_dot(w.a.z, w.a.w, x, s),
         pair_dot(w.b.x, w.b.y, x, s), pair_dot(w.b.z, w.b.w, x, s)),
    vec4(pair_dot(w.c.x, w.c.y, x, s), pair_dot(w.c.z, w.c.w, x, s),
         pair_dot(w.d.x, w.d.y, x, s), pair_dot(w.d.z, w.d.w, x, s)));
}
