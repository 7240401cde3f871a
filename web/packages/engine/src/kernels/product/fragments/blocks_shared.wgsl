// Where there are no subgroups every lane prepares the whole block: the same bits, and no barriers.
fn input_block(base: u32, block: u32, q: u32) -> Input {
  add_squares(base, 4u * block + q);
  return prepared(input_piece(base, 4u * block), input_piece(base, 4u * block + 1u),
                  input_piece(base, 4u * block + 2u), input_piece(base, 4u * block + 3u));
}

var<workgroup> lane_values: array<f32, 4u * kClasses>;

fn sum_of_four(v: f32, t: u32) -> f32 {
  lane_values[t] = v;
  workgroupBarrier();
  let first = t & ~3u;
  return (lane_values[first] + lane_values[first + 1u]) +
    (lane_values[first + 2u] + lane_values[first + 3u]);
}
