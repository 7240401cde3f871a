// A causal convolution of each column over the rows of its session. A thread goes through
// op.stretch rows of a column, the last rows in registers: what lies before its first one it reads
// from the run's rows, or from the state where the run has none.
//
//   stretches of 4, 3 taps   rows 0 1 2 3 | 4 5 6 7 | 8 9
//   the second thread        reads rows 2 and 3, makes 4 to 7; the last one leaves 8 and 9
fn input_at(row: u32, column: u32) -> f32 {
  return act[op.in_base + row * op.in_stride + column];
}

// What stands `back` rows before row `at` of the run.
fn before(run: StateRun, at: u32, back: u32, column: u32) -> f32 {
  if (at >= back) {
    return input_at(run.first_row + at - back, column);
  }
  return state_value(run, (kTaps - 1u + at - back) * op.columns + column);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x;
  let run = state_run(id.y);
  if (column >= op.columns || op.stretch * id.z >= run.rows) {
    return;
  }
  let begin = op.stretch * id.z;
  let end = min(begin + op.stretch, run.rows);
  var past: array<f32, kTaps>;
  for (var j = 0u; j + 1u < kTaps; j++) {
    past[j] = before(run, begin, kTaps - 1u - j, column);
  }
  var bias = 0.0;
  if (op.bias != kNone) {
    bias = vectors[op.bias + column];
  }
  for (var at = begin; at < end; at++) {
    let row = run.first_row + at;
    past[kTaps - 1u] = input_at(row, column);
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
  if (end == run.rows) {
    for (var j = 0u; j + 1u < kTaps; j++) {
      kv[run.after + j * op.columns + column] = past[j];
    }
  }
}
