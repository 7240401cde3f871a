// What the product kernels (matvec.wgsl, moe_down.wgsl) share: their parameters and what happens
// with a finished sum. A fused matrix has rows in groups of 8; its segments are the outputs of the
// program's own products. In a paired matrix, groups alternate: gate rows, up rows.
struct Segment {
  first: u32,  // row of the fused matrix
  end: u32,
  out_base: u32,
  out_stride: u32,
  bias: u32,  // in `vectors`, or kNone; paired: of the gate rows
  bias_up: u32,
  pad_a: u32,
  pad_b: u32,
}

struct Op {
  rows_at: u32,
  in_base: u32,
  in_stride: u32,
  columns: u32,
  blocks: u32,  // in a row of the matrix
  group_count: u32,  // of this slab
  row_first: u32,  // the slab's first row in the fused matrix
  zero_base: u32,  // in `wscale`, or kNone
  norm_base: u32,  // in `vectors`
  epsilon: f32,
  activation: u32,
  residual_base: u32,  // kNone: nothing is added
  residual_stride: u32,
  round_kind: u32,
  segment_count: u32,
  top_k: u32,  // experts only
  route_base: u32,
  route_stride: u32,
  expert_groups: u32,
  expert_bias: u32,  // bias values of one expert
  planes_base: u32,  // in `planes` (inputs_planes.wgsl)
  pad_a: u32,
  pad_b: u32,
  pad_c: u32,
  segments: array<Segment, 4>,
}

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

// Column `column` of a paired matrix. `bias_shift`: where an expert's biases begin.
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
