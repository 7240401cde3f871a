// Pages of keys and values in f16 (kv_f16.wgsl) four words at a time, for heads whose number of
// pairs four divides.
@group(0) @binding(6) var<storage, read_write> kv: array<vec4<u32>>;

// Two columns of four positions, or of four pairs.
struct PairsOfFour {
  x: vec4<f32>,
  y: vec4<f32>,
}

fn pairs_of(words: vec4<u32>) -> PairsOfFour {
  let a = unpack2x16float(words.x);
  let b = unpack2x16float(words.y);
  let c = unpack2x16float(words.z);
  let d = unpack2x16float(words.w);
  return PairsOfFour(vec4(a.x, b.x, c.x, d.x), vec4(a.y, b.y, c.y, d.y));
}

// A pair of the keys at positions slot to slot + 3 of a page.
fn load_keys(page: u32, head: u32, pair: u32, slot: u32) -> PairsOfFour {
  let keys = page * 16u * op.kv_heads * kPairs;
  return pairs_of(kv[keys + (head * kPairs + pair) * 8u + (slot >> 2u)]);
}

// Pairs pair to pair + 3 of the value at a position.
fn load_values(page: u32, head: u32, pair: u32, slot: u32) -> PairsOfFour {
  let values = (2u * page + 1u) * 8u * op.kv_heads * kPairs;
  return pairs_of(kv[values + (((head * 32u + slot) * kPairs + pair) >> 2u)]);
}
