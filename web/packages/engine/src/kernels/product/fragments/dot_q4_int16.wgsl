// A block of 32 q4 weights of a row: bytes of even and odd columns.
alias Words = vec4<u32>;

struct Block {
  a: vec4<u32>,
  b: vec4<u32>,
}

fn first_planes(low: vec4<u32>, high: vec4<u32>) -> vec2<u32> {
  return planes_of(low.x, low.z, high.x, high.z);
}

fn last_planes(low: vec4<u32>, high: vec4<u32>) -> vec2<u32> {
  return planes_of(low.y, low.w, high.y, high.w);
}

fn load_block(row: u32, block: u32) -> Words {
  return wdata[row * op.blocks + block];
}

fn unpacked(words: Words) -> Block {
  let even = words & vec4<u32>(0x0f0f0f0fu);
  let odd = (words >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
  return Block(vec4(even.x, odd.x, even.y, odd.y), vec4(even.z, odd.z, even.w, odd.w));
}

// Exact: everything is an integer below 2^24.
fn without_zero(total: f32, zero: f32, input_sum: f32) -> f32 {
  return fma(-zero, input_sum, total);
}
