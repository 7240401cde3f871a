// Weights in f16: 32 values in four vec4<u32>. Needs no shader-f16: sums are f32 anyway.
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
  let a = unpack2x16float(words.x);
  let b = unpack2x16float(words.y);
  let c = unpack2x16float(words.z);
  let d = unpack2x16float(words.w);
  return Eight(vec4(a, b), vec4(c, d));
}
