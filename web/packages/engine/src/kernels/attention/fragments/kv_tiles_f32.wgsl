// Pages of keys and values in f32 (kv_f32.wgsl) four words at a time: kv_tiles_f16.wgsl with the
// second column of every pair in a plane of its own.
@group(0) @binding(6) var<storage, read_write> kv: array<vec4<u32>>;

struct PairsOfFour {
  x: vec4<f32>,
  y: vec4<f32>,
}

fn pairs_at(page: u32, at: u32) -> PairsOfFour {
  let plane = 16u * op.kv_heads * kPairs;
  let first = 2u * page * plane + at;
  return PairsOfFour(bitcast<vec4<f32>>(kv[first]), bitcast<vec4<f32>>(kv[first + plane]));
}

fn load_keys(page: u32, head: u32, pair: u32, slot: u32) -> PairsOfFour {
  return pairs_at(page, (head * kPairs + pair) * 8u + (slot >> 2u));
}

fn load_values(page: u32, head: u32, pair: u32, slot: u32) -> PairsOfFour {
  let values = 8u * op.kv_heads * kPairs;
  return pairs_at(page, values + (((head * 32u + slot) * kPairs + pair) >> 2u));
}
