// Weights in q8: 32 bytes in two vec4<u32>; value = (q - 128) * scale.
const kVecs = 2u;

struct Block {
  low: vec4<u32>,
  high: vec4<u32>,
  scale: f32,
}

fn load_block(group_block: u32, r: u32) -> Block {
  let scale = unpack2x16float(wscale[group_block * 4u + (r >> 1u)])[r & 1u];
  let at = group_block * 16u + r;
  return Block(wdata[at], wdata[at + 8u], scale);
}

// Values 8 w to 8 w + 7 before the scale.
fn eighth(block: Block, w: u32) -> Eight {
  let half = select(block.low, block.high, w >= 2u);
  let pair = select(half.xy, half.zw, (w & 1u) == 1u);
  let shifts = vec4<u32>(0u, 8u, 16u, 24u);
  let low = (vec4<u32>(pair.x) >> shifts) & vec4<u32>(255u);
  let high = (vec4<u32>(pair.y) >> shifts) & vec4<u32>(255u);
  return Eight(vec4<f32>(low) - 128.0, vec4<f32>(high) - 128.0);
}
