// The inputs of matvec_blocks.wgsl as they stand in `act`, one row a workgroup.
var<workgroup> class_squares: array<f32, kClasses>;

fn place_of_row(row: u32) -> u32 {
  return in_base() + row * op.in_stride;
}

// A barrier must follow.
fn close_inputs(class_index: u32, q: u32, t: u32) {
  if (kWithNorm) {
    let sum = sum_of_four(squares, t);
    if (q == 0u) {
      class_squares[class_index] = sum;
    }
  }
}

fn inverse_rms(base: u32) -> f32 {
  if (!kWithNorm) {
    return 1.0;
  }
  var total = class_squares[0];
  for (var c = 1u; c < kClasses; c++) {
    total = total + class_squares[c];
  }
  return 1.0 / sqrt(total / f32(op.columns) + op.epsilon);
}
