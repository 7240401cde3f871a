// Weights in bf16: 32 values in four vec4<u32>.
const kVecs = 4u;

struct Block {
  at: u32,
  scale: f32,
}

fn load_block(group_block: u32, r: u32) -> Block {
  return Block(group_block * 32u + r, 1.0);
}

// Values 8 w to 8 w + 7.
fn eighth(block: Block, w: u32) -> Eight {
  let words = wdata[block.at + 8u * w];
  let low = bitcast<vec4<f32>>(words << vec4<u32>(16u));
  let high = bitcast<vec4<f32>>(words & vec4<u32>(0xffff0000u));
  return Eight(vec4(low.x, high.x, low.y, high.y), vec4(low.z, high.z, low.w, high.w));
}
