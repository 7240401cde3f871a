// Recurrent state (kv/states.ts): slots of f32 values, one for a session at a position. The step
// says for every layer with state where each run's rows lie and in which slots its state does.
@group(0) @binding(6) var<storage, read_write> kv: array<f32>;

struct StateRun {
  first_row: u32,
  rows: u32,
  before: u32, // first value of this operation's state; kNone: zeros
  after: u32,
}

fn state_run(index: u32) -> StateRun {
  let begin = step[kStepRunsBegin];
  let runs = step[begin];
  let at = begin + 1u + 4u * (op.state_layer * runs + index);
  var before = step[at + 2u];
  if (before != kNone) {
    before = before * op.slot_floats + op.state_at;
  }
  return StateRun(step[at], step[at + 1u], before, step[at + 3u] * op.slot_floats + op.state_at);
}

fn state_value(run: StateRun, at: u32) -> f32 {
  if (run.before == kNone) {
    return 0.0;
  }
  return kv[run.before + at];
}

fn softplus(x: f32) -> f32 {
  if (x > 20.0) {
    return x;
  }
  let e = exp(x);
  if (e < 0.001) {
    return e - 0.5 * e * e;
  }
  return log(1.0 + e);
}
