// Inputs of a product of superblocks as quantise_superblocks.wgsl left them, in vec4. A row: four a
// block, then the sums of two blocks' halves in one, then the scales of two superblocks in one,
// then the inverse of the root mean square.
fn superblocks() -> u32 {
  return (op.blocks + 7u) >> 3u;
}

fn sums_at(first: u32) -> u32 {
  return first + 4u * op.blocks;
}

fn scales_at(first: u32) -> u32 {
  return sums_at(first) + ((op.blocks + 1u) >> 1u);
}

fn inverse_at(first: u32) -> u32 {
  return scales_at(first) + ((superblocks() + 1u) >> 1u);
}

// Those of heads with inputs of their own lie one behind the other.
fn planes_of_row(row: u32) -> u32 {
  var input = row;
  if (kByHead) {
    input = row * op.plane_heads + own_head % op.plane_heads;
  }
  return op.planes_base + input * (inverse_at(0u) + 1u);
}
