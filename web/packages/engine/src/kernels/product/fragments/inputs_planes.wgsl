// The inputs of matvec_blocks.wgsl where quantise.wgsl made them (blocks_planes.wgsl).
fn place_of_row(row: u32) -> u32 {
  return planes_of_row(row);
}

fn input_block(base: u32, b: u32, q: u32) -> Input {
  let block = min(b, op.blocks - 1u);
  let at = base + 4u * block;
  let own = sum_and_scale(base, block);
  return Input(planes[at], planes[at + 1u], planes[at + 2u], planes[at + 3u], own.x,
               select(0.0, own.y, b == block));
}

fn close_inputs(class_index: u32, q: u32, t: u32) {}

fn inverse_rms(base: u32) -> f32 {
  return planes_inverse_rms(base);
}
