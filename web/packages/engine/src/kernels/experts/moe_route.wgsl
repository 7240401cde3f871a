// Chooses the top_k experts of a row by logit (ties to the lower index) and their weights. One
// thread a row: experts are few. A not-a-number ranks below everything.
fn rank(value: f32) -> f32 {
  let bits = bitcast<u32>(value);
  return select(max(value, -3.0e38), -3.4e38, (bits & 0x7fffffffu) > 0x7f800000u);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  if (row >= row_count()) {
    return;
  }
  let logits = op.logits_base + row * op.logits_stride;
  let out = op.out_base + row * op.out_stride;
  var last = 0.0;
  var last_index = kNone;
  for (var slot = 0u; slot < op.top_k; slot++) {
    var best = 0u;
    var best_rank = 0.0;
    var found = false;
    for (var e = 0u; e < op.experts; e++) {
      let value = rank(act[logits + e]);
      let is_after = slot == 0u || value < last || (value == last && e > last_index);
      if (is_after && (!found || value > best_rank)) {
        best = e;
        best_rank = value;
        found = true;
      }
    }
    act[out + slot] = f32(best);
    last = best_rank;
    last_index = best;
  }
  let largest = act[logits + u32(act[out])];
  var sum = 0.0;
  if (op.normalized == 1u) {
    for (var slot = 0u; slot < op.top_k; slot++) {
      sum = sum + exp(act[logits + u32(act[out + slot])] - largest);
    }
  } else {
    for (var e = 0u; e < op.experts; e++) {
      sum = sum + exp(act[logits + e] - largest);
    }
  }
  for (var slot = 0u; slot < op.top_k; slot++) {
    act[out + op.top_k + slot] = exp(act[logits + u32(act[out + slot])] - largest) / sum;
  }
}
