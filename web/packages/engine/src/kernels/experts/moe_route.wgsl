// Chooses the top_k experts of a row (ties to the lower index) and their weights, a workgroup a
// row: thread t looks at experts t, t + 64, ... For the one thread of moe_route_serial.wgsl, 256
// experts are thousands of reads one after the other.
var<workgroup> values: array<f32, 64>;
var<workgroup> indices: array<u32, 64>;
var<workgroup> run_values: array<f32, 8>;
var<workgroup> run_indices: array<u32, 8>;
var<workgroup> worth: array<f32, kMaxGroups>;
var<workgroup> kept: array<u32, kMaxGroups>;

struct Best {
  value: f32,
  index: u32, // kNone: none
}

fn is_better(value: f32, index: u32, than: Best) -> bool {
  if (index == kNone) {
    return false;
  }
  return than.index == kNone || value > than.value || (value == than.value && index < than.index);
}

// The best of all threads'. Two calls may follow each other: what one reads last, the next writes
// behind a barrier.
fn best_of_threads(t: u32, own: Best) -> Best {
  values[t] = own.value;
  indices[t] = own.index;
  workgroupBarrier();
  if (t < 8u) {
    var best = Best(0.0, kNone);
    for (var i = 8u * t; i < 8u * t + 8u; i++) {
      if (is_better(values[i], indices[i], best)) {
        best = Best(values[i], indices[i]);
      }
    }
    run_values[t] = best.value;
    run_indices[t] = best.index;
  }
  workgroupBarrier();
  var best = Best(0.0, kNone);
  for (var i = 0u; i < 8u; i++) {
    if (is_better(run_values[i], run_indices[i], best)) {
      best = Best(run_values[i], run_indices[i]);
    }
  }
  return best;
}

fn sum_of_threads(t: u32, value: f32) -> f32 {
  values[t] = value;
  workgroupBarrier();
  if (t < 8u) {
    var sum = 0.0;
    for (var i = 8u * t; i < 8u * t + 8u; i++) {
      sum = sum + values[i];
    }
    run_values[t] = sum;
  }
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < 8u; i++) {
    total = total + run_values[i];
  }
  return total;
}

fn scale_of(logits: u32, t: u32) -> Scale {
  var own = Best(0.0, kNone);
  for (var e = t; e < op.experts; e += 64u) {
    if (is_better(rank(act[logits + e]), e, own)) {
      own = Best(rank(act[logits + e]), e);
    }
  }
  let largest = act[logits + best_of_threads(t, own).index];
  var sum = 0.0;
  for (var e = t; e < op.experts; e += 64u) {
    sum = sum + exp(act[logits + e] - largest);
  }
  let all = sum_of_threads(t, sum);
  if (!is_softmax()) {
    return Scale(0.0, 1.0);
  }
  return Scale(largest, all);
}

fn keep_best_groups(logits: u32, t: u32, scale: Scale) {
  for (var g = t; g < op.groups; g += 64u) {
    worth[g] = worth_of(logits, g, scale);
  }
  workgroupBarrier();
  for (var g = t; g < op.groups; g += 64u) {
    kept[g] = select(0u, 1u, is_among_best(g));
  }
  workgroupBarrier();
}

fn is_kept(group: u32) -> bool {
  return kept[group] != 0u;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = workgroup.y;
  let logits = op.logits_base + row * op.logits_stride;
  let out = op.out_base + row * op.out_stride;
  let scale = scale_of(logits, t);
  if (op.groups > 1u) {
    keep_best_groups(logits, t, scale);
  }
  var last = Best(0.0, kNone);
  for (var slot = 0u; slot < op.top_k; slot++) {
    var own = Best(0.0, kNone);
    for (var e = t; e < op.experts; e += 64u) {
      let value = choice_in_groups(logits, e, scale);
      let is_after =
        slot == 0u || value < last.value || (value == last.value && e > last.index);
      if (is_after && is_better(value, e, own)) {
        own = Best(value, e);
      }
    }
    last = best_of_threads(t, own);
    if (t == 0u) {
      act[out + slot] = f32(last.index);
    }
  }
  if (t == 0u) {
    write_weights(logits, out, scale);
  }
}
