// Inputs of a product as they stand in `act`, normalised and prepared on the way in.
var<private> squares: array<f32, kTileRows>;

// Columns 8 p to 8 p + 7 of `row`, which is row m of the tile.
fn input_piece(m: u32, row: u32, p: u32) -> Input {
  var x = act_eight(in_base() + row * op.in_stride, 8u * p);
  if (kWithNorm) {
    squares[m] = dot_from(x, x, squares[m]);
    let w = vector_eight(op.norm_base, 8u * p);
    x = Eight(x.low * w.low, x.high * w.high);
  }
  return prepared(x);
}

// Leaves the sums of squares of each part; a barrier must follow.
fn close_inputs(t: u32) {
  if (kWithNorm) {
    for (var m = 0u; m < kTileRows; m++) {
      sum_one(squares[m], t, (t >> 5u) * kStride + kOutputs * kTileRows + m);
    }
  }
}

fn inverse_rms(m: u32, row: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  return 1.0 / sqrt(sum_of_parts(kOutputs * kTileRows + m) / f32(op.columns) + op.epsilon);
}
