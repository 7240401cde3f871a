// Pairs of keys and values in f32 for kv_pages.wgsl: two words a pair, the second one
// `plane_words()` behind the first.
fn page_words() -> u32 {
  return 2u * plane_words();
}
alias PairWords = vec2<u32>;

fn words_of(value: vec2<f32>) -> PairWords {
  return bitcast<vec2<u32>>(value);
}
fn pair_of(words: PairWords) -> vec2<f32> {
  return bitcast<vec2<f32>>(words);
}
fn load_words(at: u32) -> PairWords {
  return vec2(kv[at], kv[at + plane_words()]);
}
fn store_pair(at: u32, value: vec2<f32>) {
  let words = words_of(value);
  kv[at] = words.x;
  kv[at + plane_words()] = words.y;
}
