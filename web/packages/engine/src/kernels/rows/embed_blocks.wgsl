// A row of a table in blocks of 32, or without scales.
struct TableBlock {
  scale: f32,
  zeros: u32,
}

// Block j of row n of the slab.
fn block_of(n: u32, j: u32) -> TableBlock {
  let at = (n >> 3u) * op.blocks + j;
  let scales = load_scales(at);
  let scale = select(scales.low[n & 3u], scales.high[n & 3u], (n & 4u) != 0u);
  return TableBlock(scale, load_zeros(at));
}

// The values of its columns 8 w to 8 w + 7.
fn values_of(block: TableBlock, n: u32, j: u32, w: u32) -> Eight {
  let values = row_values(n, 4u * j + w, 4u * op.blocks, block.zeros);
  return Eight(values.low * block.scale, values.high * block.scale);
}
