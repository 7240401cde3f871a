// A block of 32 q8 weights of a row: bytes of neighbouring columns, 128 less than stored.
struct Words {
  a: vec4<u32>,
  b: vec4<u32>,
}

alias Block = Words;

fn first_planes(low: vec4<u32>, high: vec4<u32>) -> vec2<u32> {
  return planes_of(low.x, low.y, low.z, low.w);
}

fn last_planes(low: vec4<u32>, high: vec4<u32>) -> vec2<u32> {
  return planes_of(high.x, high.y, high.z, high.w);
}

fn load_block(row: u32, block: u32) -> Words {
  let at = 2u * (row * op.blocks + block);
  return Words(wdata[at], wdata[at + 1u]);
}

fn unpacked(words: Words) -> Block {
  return Block(words.a ^ vec4<u32>(kSigns), words.b ^ vec4<u32>(kSigns));
}

fn load_zeros(group_block: u32) -> u32 {
  return 0u;
}

fn without_zero(total: f32, zero: f32, input_sum: f32) -> f32 {
  return total;
}
