// Products without norm and biases have nothing bound, and read nothing.
fn vector_at(i: u32) -> f32 {
  return 0.0;
}
fn vector_eight(base: u32, k: u32) -> Eight {
  return Eight(vec4<f32>(0.0), vec4<f32>(0.0));
}
