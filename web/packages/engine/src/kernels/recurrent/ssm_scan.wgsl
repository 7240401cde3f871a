// Mamba2's selective scan: a workgroup takes 64 columns of a head through a whole run, a thread a
// column, whose state stays in registers.
var<workgroup> b_row: array<f32, kStateColumns>;
var<workgroup> c_row: array<f32, kStateColumns>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = workgroup.y;
  let run = state_run(workgroup.z);
  let column = 64u * workgroup.x + t;
  let is_own = column < op.head_columns;
  let own = min(column, op.head_columns - 1u);
  let group = head / (op.heads / op.groups);
  let state_base = head * kStateColumns * op.head_columns + own;
//* each m of kStateColumns
  var s$m = state_value(run, state_base + $mu * op.head_columns);
//* end
  for (var row = run.first_row; row < run.first_row + run.rows; row++) {
    workgroupBarrier();
    for (var i = t; i < kStateColumns; i += 64u) {
      b_row[i] = act[op.b_base + row * op.b_stride + group * kStateColumns + i];
      c_row[i] = act[op.c_base + row * op.c_stride + group * kStateColumns + i];
    }
    workgroupBarrier();
    var time_step = max(
      softplus(act[op.dt_base + row * op.dt_stride + head] + vectors[op.dt_bias + head]),
      op.dt_min);
    if (op.dt_max > 0.0) {
      time_step = min(time_step, op.dt_max);
    }
    let kept = exp(vectors[op.decay + head] * time_step);
    let x = act[op.x_base + row * op.x_stride + head * op.head_columns + own];
    let scaled = time_step * x;
    var out = vectors[op.skip + head] * x;
//* each m of kStateColumns
    s$m = fma(scaled, b_row[$mu], kept * s$m);
    out = fma(s$m, c_row[$mu], out);
//* end
    if (is_own) {
      act[op.out_base + row * op.out_stride + head * op.head_columns + own] = out;
    }
  }
  if (is_own) {
    let after = run.after + state_base;
//* each m of kStateColumns
    kv[after + $mu * op.head_columns] = s$m;
//* end
  }
}
