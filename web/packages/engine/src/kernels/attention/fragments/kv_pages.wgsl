// Where pages of keys and values have a pair of columns. A page holds 32 positions:
// keys [kv head][pair of columns][32], values [kv head][32][pair of columns]. kv_f16.wgsl and
// kv_f32.wgsl say how many words a page has (page_words), and what the words of a pair are
// (PairWords).
@group(0) @binding(6) var<storage, read_write> kv: array<u32>;

fn kv_pairs() -> u32 {
  return (op.head_columns + 1u) >> 1u;
}
// 1 where values lie in keys, as their last pairs, else 2.
fn kinds() -> u32 {
  return select(1u, 2u, op.value_columns == 0u);
}
fn value_pairs() -> u32 {
  return select((op.value_columns + 1u) >> 1u, kv_pairs(), op.value_columns == 0u);
}
// A word for each pair of a page.
fn plane_words() -> u32 {
  return 32u * kinds() * op.kv_heads * kv_pairs();
}
fn key_at(page: u32, head: u32, pair: u32, slot: u32) -> u32 {
  return page * page_words() + (head * kv_pairs() + pair) * 32u + slot;
}
fn value_at(page: u32, head: u32, slot: u32, pair: u32) -> u32 {
  if (op.value_columns > 0u) {
    return key_at(page, head, kv_pairs() - value_pairs() + pair, slot);
  }
  return page * page_words() + 32u * op.kv_heads * kv_pairs() +
    (head * 32u + slot) * kv_pairs() + pair;
}
fn store_key(page: u32, head: u32, pair: u32, slot: u32, value: vec2<f32>) {
  store_pair(key_at(page, head, pair, slot), value);
}
fn store_value(page: u32, head: u32, pair: u32, slot: u32, value: vec2<f32>) {
  store_pair(value_at(page, head, slot, pair), value);
}
fn load_key(page: u32, head: u32, pair: u32, slot: u32) -> vec2<f32> {
  return pair_of(load_words(key_at(page, head, pair, slot)));
}
fn load_value(page: u32, head: u32, pair: u32, slot: u32) -> vec2<f32> {
  return pair_of(load_words(value_at(page, head, slot, pair)));
}
