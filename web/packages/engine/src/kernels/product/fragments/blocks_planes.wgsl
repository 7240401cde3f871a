// Inputs of a product of several rows as quantise.wgsl left them. A row: four vec4 a block, then
// sum and scale of two blocks a vec4, then the inverse of the root mean square.
@group(0) @binding(7) var<storage, read_write> planes: array<vec4<u32>>;

fn sum_and_scale(first: u32, block: u32) -> vec2<f32> {
  let both = planes[first + 4u * op.blocks + (block >> 1u)];
  return bitcast<vec2<f32>>(select(both.xy, both.zw, (block & 1u) == 1u));
}

fn planes_inverse_rms(first: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return bitcast<f32>(planes[first + 4u * op.blocks + ((op.blocks + 1u) >> 1u)].x);
}
