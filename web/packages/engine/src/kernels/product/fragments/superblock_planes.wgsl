// The inputs of products of superblocks where quantise_superblocks.wgsl has left them
// (planes_superblocks.wgsl). own_superblocks.wgsl prepares those of one row itself.
@group(0) @binding(7) var<storage, read_write> planes: array<vec4<u32>>;

fn place_of_row(row: u32) -> u32 {
  return planes_of_row(row);
}

// The sums of a block's halves.
fn half_sums(first: u32, block: u32) -> vec2<i32> {
  let both = planes[sums_at(first) + (block >> 1u)];
  return bitcast<vec2<i32>>(select(both.xy, both.zw, (block & 1u) == 1u));
}

// Block `b` of the row at `first`; what lies past the last one is never used.
fn block_inputs(first: u32, b: u32, t: u32) -> BlockInputs {
  let block = min(b, op.blocks - 1u);
  let at = first + 4u * block;
  return BlockInputs(planes[at], planes[at + 1u], planes[at + 2u], planes[at + 3u],
                     half_sums(first, block));
}

fn input_scale_bits(first: u32, superblock: u32) -> u32 {
  return planes[scales_at(first) + (superblock >> 1u)][2u * (superblock & 1u)];
}

fn input_scale(first: u32, superblock: u32) -> f32 {
  return bitcast<f32>(input_scale_bits(first, superblock));
}

fn add_superblock_squares(superblock: u32) {}

fn planes_inverse_rms(first: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return bitcast<f32>(planes[inverse_at(first)].x);
}
