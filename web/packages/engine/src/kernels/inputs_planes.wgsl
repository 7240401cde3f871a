// Inputs of a product of several rows as quantise.wgsl left them. A row: a vec4 of bytes for each
// piece of 8 columns, then sum and scale of two pieces a vec4, then the inverse of the root mean
// square.
@group(0) @binding(7) var<storage, read_write> planes: array<vec4<u32>>;

fn row_of_planes(row: u32) -> u32 {
  return op.planes_base + row * (6u * op.blocks + 1u);
}

fn input_piece(m: u32, row: u32, p: u32) -> Input {
  let first = row_of_planes(row);
  let clamped = min(p, 4u * op.blocks - 1u);
  let bytes = planes[first + clamped];
  let both = planes[first + 4u * op.blocks + (clamped >> 1u)];
  let own = select(both.xy, both.zw, (clamped & 1u) == 1u);
  let scale = select(0.0, bitcast<f32>(own.y), p == clamped);
  return Input(bytes.xy, bytes.zw, bitcast<i32>(own.x), scale);
}

fn close_inputs(t: u32) {}

fn inverse_rms(m: u32, row: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return bitcast<f32>(planes[row_of_planes(row) + 6u * op.blocks].x);
}
