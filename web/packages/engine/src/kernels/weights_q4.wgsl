// Weights in q4: 32 nibbles in one vec4<u32>, low nibble first; value = (q - zero) * scale. Arrays
// as weights/matrix.ts lays them out: 8 rows side by side.
const kVecs = 1u;

struct Block {
  words: vec4<u32>,
  scale: f32,
  zero: f32,
}

fn load_block(group_block: u32, r: u32) -> Block {
  let scale = unpack2x16float(wscale[group_block * 4u + (r >> 1u)])[r & 1u];
  var zero = 8.0;
  if (op.zero_base != kNone) {
    zero = f32((wscale[op.zero_base + group_block] >> (4u * r)) & 15u);
  }
  return Block(wdata[group_block * 8u + r], scale, zero);
}

// Values 8 w to 8 w + 7 before the scale.
fn eighth(block: Block, w: u32) -> Eight {
  let word = block.words[w];
  let shifts = vec4<u32>(0u, 4u, 8u, 12u);
  let low = (vec4<u32>(word) >> shifts) & vec4<u32>(15u);
  let high = (vec4<u32>(word >> 16u) >> shifts) & vec4<u32>(15u);
  return Eight(vec4<f32>(low) - block.zero, vec4<f32>(high) - block.zero);
}
