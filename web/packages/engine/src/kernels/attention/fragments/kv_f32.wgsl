// Pairs of keys and values in f32 for kv_pages.wgsl: two words a pair, the second one
// `plane_words()` behind the first.
fn page_words() -> u32 {
  return 2u * plane_words();
}
fn store_pair(at: u32, value: vec2<f32>) {
  kv[at] = bitcast<u32>(value.x);
  kv[at + plane_words()] = bitcast<u32>(value.y);
}
fn load_pair(at: u32) -> vec2<f32> {
  return vec2(bitcast<f32>(kv[at]), bitcast<f32>(kv[at + plane_words()]));
}
// The part of a value that is left once it was stored: all of it.
fn kept(value: vec2<f32>) -> vec2<f32> {
  return value;
}
