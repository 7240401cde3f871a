// The gated delta rule: a workgroup takes 64 columns of a value head through a whole run, a thread
// a column of S, which stays in registers. Query and key of a row are normed in workgroup memory.
var<workgroup> queries: array<f32, kKeyColumns>;
var<workgroup> keys: array<f32, kKeyColumns>;
var<workgroup> squares: array<vec2<f32>, 64>;

// 1 / sqrt(sum of squares + 1e-6) of query and key, added up in one fixed order.
fn norms_of_threads(t: u32, own: vec2<f32>) -> vec2<f32> {
  squares[t] = own;
  workgroupBarrier();
  var sum = vec2(0.0);
  for (var i = 0u; i < 64u; i++) {
    sum = sum + squares[i];
  }
  return vec2(1.0) / sqrt(sum + vec2(1e-6));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = workgroup.y;
  let run = state_run(workgroup.z);
  let column = 64u * workgroup.x + t;
  let is_own = column < op.value_columns;
  let own = min(column, op.value_columns - 1u);
  var key_head = head / (op.value_heads / op.key_heads);
  if (op.tiled != 0u) {
    key_head = head % op.key_heads;
  }
  let state_base = head * kKeyColumns * op.value_columns + own;
  let scale = 1.0 / sqrt(f32(kKeyColumns));
//* each m of kKeyColumns
  var s$m = state_value(run, state_base + $mu * op.value_columns);
//* end
  for (var row = run.first_row; row < run.first_row + run.rows; row++) {
    workgroupBarrier();
    var sums = vec2(0.0);
    for (var i = t; i < kKeyColumns; i += 64u) {
      let q = act[op.q_base + row * op.q_stride + key_head * kKeyColumns + i];
      let k = act[op.k_base + row * op.k_stride + key_head * kKeyColumns + i];
      queries[i] = q;
      keys[i] = k;
      sums = fma(vec2(q, k), vec2(q, k), sums);
    }
    let norms = norms_of_threads(t, sums);
    for (var i = t; i < kKeyColumns; i += 64u) {
      queries[i] = queries[i] * (norms.x * scale);
      keys[i] = keys[i] * norms.y;
    }
    workgroupBarrier();
    let beta = sigmoid(act[op.b_base + row * op.b_stride + head]);
    let time_step = softplus(act[op.a_base + row * op.a_stride + head] +
      vectors[op.dt_bias + head]);
    let kept = exp(vectors[op.decay + head] * time_step);
    var read = 0.0;
//* each m of kKeyColumns
    s$m = s$m * kept;
    read = fma(s$m, keys[$mu], read);
//* end
    let v = act[op.v_base + row * op.v_stride + head * op.value_columns + own];
    let change = beta * (v - read);
    var out = 0.0;
//* each m of kKeyColumns
    s$m = fma(keys[$mu], change, s$m);
    out = fma(s$m, queries[$mu], out);
//* end
    if (is_own) {
      act[op.out_base + row * op.out_stride + head * op.value_columns + own] = out;
    }
  }
  if (is_own) {
    let after = run.after + state_base;
//* each m of kKeyColumns
    kv[after + $mu * op.value_columns] = s$m;
//* end
  }
}
