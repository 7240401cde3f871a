// Pairs of keys and values in f16, two columns a word, for kv_pages.wgsl.
fn page_words() -> u32 {
  return plane_words();
}
fn store_pair(at: u32, value: vec2<f32>) {
  kv[at] = to_half(value.x) | (to_half(value.y) << 16u);
}
fn load_pair(at: u32) -> vec2<f32> {
  return unpack2x16float(kv[at]);
}
// The part of a value that is left once it was stored.
fn kept(value: vec2<f32>) -> vec2<f32> {
  return unpack2x16float(to_half(value.x) | (to_half(value.y) << 16u));
}
