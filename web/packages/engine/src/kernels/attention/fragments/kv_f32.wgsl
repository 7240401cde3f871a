// Pages of keys and values in f32: kv_f16.wgsl with two words a pair, the second one
// `plane_words()` behind the first.
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
fn plane_words() -> u32 {
  return 32u * kinds() * op.kv_heads * kv_pairs();
}
fn key_at(page: u32, head: u32, pair: u32, slot: u32) -> u32 {
  return page * 2u * plane_words() + (head * kv_pairs() + pair) * 32u + slot;
}
fn value_at(page: u32, head: u32, slot: u32, pair: u32) -> u32 {
  if (op.value_columns > 0u) {
    return key_at(page, head, kv_pairs() - value_pairs() + pair, slot);
  }
  return page * 2u * plane_words() + 32u * op.kv_heads * kv_pairs() +
    (head * 32u + slot) * kv_pairs() + pair;
}
fn store_pair(at: u32, value: vec2<f32>) {
  kv[at] = bitcast<u32>(value.x);
  kv[at + plane_words()] = bitcast<u32>(value.y);
}
fn load_pair(at: u32) -> vec2<f32> {
  return vec2(bitcast<f32>(kv[at]), bitcast<f32>(kv[at + plane_words()]));
}
fn store_key(page: u32, head: u32, pair: u32, slot: u32, value: vec2<f32>) {
  store_pair(key_at(page, head, pair, slot), value);
}
fn store_value(page: u32, head: u32, pair: u32, slot: u32, value: vec2<f32>) {
  store_pair(value_at(page, head, slot, pair), value);
}
fn load_key(page: u32, head: u32, pair: u32, slot: u32) -> vec2<f32> {
  return load_pair(key_at(page, head, pair, slot));
}
fn load_value(page: u32, head: u32, pair: u32, slot: u32) -> vec2<f32> {
  return load_pair(value_at(page, head, slot, pair));
}
// What remains of a value that was stored.
fn kept(value: vec2<f32>) -> vec2<f32> {
  return value;
}
