// Eight products added one after another.
fn dot_from(a: Eight, b: Eight, sum: f32) -> f32 {
  var d = fma(a.low.x, b.low.x, sum);
  d = fma(a.low.y, b.low.y, d);
  d = fma(a.low.z, b.low.z, d);
  d = fma(a.low.w, b.low.w, d);
  d = fma(a.high.x, b.high.x, d);
  d = fma(a.high.y, b.high.y, d);
  d = fma(a.high.z, b.high.z, d);
  return fma(a.high.w, b.high.w, d);
}

fn dot_eight(a: Eight, b: Eight) -> f32 {
  return dot_from(a, b, 0.0);
}
