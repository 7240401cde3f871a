// What happens with a finished sum: bias, activation, gate, residual, factor, another residual,
// rounding and the place, each where there is one; products as fma, which nobody contracts. A
// fused matrix has rows in groups of 8; its segments are the outputs of the program's own products.
// In a paired matrix, groups alternate: gate rows, up rows.
//
// Outputs of several heads may lie apart. Where all heads share their input they are one segment:
// with head_rows = 64 and head_skip = 512, rows 0 to 63 go to columns 0 to 63, rows 64 to 127 to
// columns 576 to 639. Where each has its own (kByHead), a workgroup works for one head alone.
var<private> own_head: u32;

// Where the first row of the workgroup's inputs begins.
fn in_base() -> u32 {
  if (kByHead) {
    return op.in_base + own_head * op.head_in;
  }
  return op.in_base;
}

fn out_column(segment: Segment, column: u32) -> u32 {
  if (kByHead) {
    return own_head * op.head_out + column;
  }
  return column + column / segment.head_rows * segment.head_skip;
}

fn store(row: u32, segment: Segment, column: u32, sum: f32) {
  var value = sum;
  if (is_gated()) {
    value = through_gate(value, act_at(gate_at(row, column)));
  }
  if (op.residual_base != kNone) {
    value = act_at(op.residual_base + row * op.residual_stride + column) + value;
  }
  if (op.factor != 1.0) {
    value = fma(value, op.factor, 0.0);
  }
  if (op.residual2_base != kNone) {
    value = act_at(op.residual2_base + row * op.residual2_stride + column) + value;
  }
  set_act(segment.out_base + row * segment.out_stride + out_column(segment, column),
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
