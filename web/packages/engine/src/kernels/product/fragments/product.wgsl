// What happens with a finished sum: bias, activation, residual, rounding and the place in `act`. A
// fused matrix has rows in groups of 8; its segments are the outputs of the program's own products.
// In a paired matrix, groups alternate: gate rows, up rows.

fn store(row: u32, segment: Segment, column: u32, sum: f32) {
  var value = sum;
  if (op.residual_base != kNone) {
    value = act_at(op.residual_base + row * op.residual_stride + column) + value;
  }
  set_act(segment.out_base + row * segment.out_stride + column,
          round_value(value, op.round_kind));
}

// Row `n` of a stacked matrix.
fn finish(row: u32, n: u32, total: f32) {
  for (var i = 0u; i < op.segment_count; i++) {
    let segment = op.segments[i];
    if (n < segment.first || n >= segment.end) {
      continue;
    }
    let column = n - segment.first;
    var value = total;
    if (kBiased && segment.bias != kNone) {
      value = value + vector_at(segment.bias + column);
    }
    store(row, segment, column, value);
    return;
  }
}

// Column `column` of a paired matrix, or of experts without a gate, whose one total is both.
// `bias_shift`: where an expert's biases begin.
fn finish_pair(row: u32, column: u32, gate_total: f32, up_total: f32, bias_shift: u32) {
  let segment = op.segments[0];
  if (column >= segment.end) {
    return;
  }
  var gate = gate_total;
  var up = up_total;
  if (kBiased && segment.bias != kNone) {
    gate = gate + vector_at(segment.bias + bias_shift + column);
  }
  if (kBiased && segment.bias_up != kNone) {
    up = up + vector_at(segment.bias_up + bias_shift + column);
  }
  store(row, segment, column, gated(gate, up, op.activation));
}
