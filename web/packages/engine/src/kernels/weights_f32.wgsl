// Weights in f32: 32 values in eight vec4<u32>.
const kVecs = 8u;

struct Block {
  at: u32,
  scale: f32,
}

fn load_block(group_block: u32, r: u32) -> Block {
  return Block(group_block * 64u + r, 1.0);
}

// Values 8 w to 8 w + 7.
fn eighth(block: Block, w: u32) -> Eight {
  let at = block.at + 16u * w;
  return Eight(bitcast<vec4<f32>>(wdata[at]), bitcast<vec4<f32>>(wdata[at + 8u]));
}
