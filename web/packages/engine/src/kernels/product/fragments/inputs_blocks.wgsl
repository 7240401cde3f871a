// Inputs of a product of one row as they stand in `act`: normalised on the way in.
var<private> squares: f32;  // of what this thread has seen

// Columns 8 p to 8 p + 7 of the row at `base`.
fn input_piece(base: u32, p: u32) -> Eight {
  let x = act_eight(base, 8u * p);
  if (!kWithNorm) {
    return x;
  }
  let w = vector_eight(op.norm_base, 8u * p);
  return Eight(x.low * w.low, x.high * w.high);
}

fn add_squares(base: u32, p: u32) {
  if (kWithNorm) {
    let x = act_eight(base, 8u * p);
    squares = dot_from(x, x, squares);
  }
}

// Adds the squares of a block's four pieces to `sums`, one each.
fn with_squares(base: u32, block: u32, sums: vec4<f32>) -> vec4<f32> {
  var all = sums;
  for (var q = 0u; q < 4u; q++) {
    squares = all[q];
    add_squares(base, 4u * block + q);
    all[q] = squares;
  }
  return all;
}
