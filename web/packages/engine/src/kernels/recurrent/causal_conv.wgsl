// A causal convolution of each column over the rows of its session: one thread a column goes
// through a whole run, the last rows in registers.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x;
  if (column >= op.columns) {
    return;
  }
  let run = state_run(id.y);
  var past: array<f32, kTaps>;
  for (var j = 0u; j + 1u < kTaps; j++) {
    past[j] = state_value(run, j * op.columns + column);
  }
  var bias = 0.0;
  if (op.bias != kNone) {
    bias = vectors[op.bias + column];
  }
  for (var row = run.first_row; row < run.first_row + run.rows; row++) {
    past[kTaps - 1u] = act[op.in_base + row * op.in_stride + column];
    var sum = bias;
    for (var j = 0u; j < kTaps; j++) {
      sum = fma(vectors[op.weight + column * kTaps + j], past[j], sum);
    }
    if (op.silu != 0u) {
      sum = sum * sigmoid(sum);
    }
    act[op.out_base + row * op.out_stride + column] = sum;
    for (var j = 0u; j + 1u < kTaps; j++) {
      past[j] = past[j + 1u];
    }
  }
  for (var j = 0u; j + 1u < kTaps; j++) {
    kv[run.after + j * op.columns + column] = past[j];
  }
}
