// Pairs of keys and values in f16, two columns a word, for kv_pages.wgsl.
fn page_words() -> u32 {
  return plane_words();
}
alias PairWords = u32;

fn words_of(value: vec2<f32>) -> PairWords {
  return to_half(value.x) | (to_half(value.y) << 16u);
}
fn pair_of(words: PairWords) -> vec2<f32> {
  return unpack2x16float(words);
}
fn load_words(at: u32) -> PairWords {
  return kv[at];
}
fn store_pair(at: u32, value: vec2<f32>) {
  kv[at] = words_of(value);
}
