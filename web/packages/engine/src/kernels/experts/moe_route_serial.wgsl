// Chooses the top_k experts of a row (ties to the lower index) and their weights, one thread a row:
// for devices on which the threads of a workgroup take turns.
fn scale_of(logits: u32) -> Scale {
  if (!is_softmax()) {
    return Scale(0.0, 1.0);
  }
  var largest = act[logits];
  for (var e = 1u; e < op.experts; e++) {
    if (rank(act[logits + e]) > rank(largest)) {
      largest = act[logits + e];
    }
  }
  var sum = 0.0;
  for (var e = 0u; e < op.experts; e++) {
    sum = sum + exp(act[logits + e] - largest);
  }
  return Scale(largest, sum);
}

// Bit g: experts of group g keep their choice.
var<private> kept: array<u32, (kMaxGroups + 31) / 32>;
var<private> worth: array<f32, kMaxGroups>;

fn keep_best_groups(logits: u32, scale: Scale) {
  for (var g = 0u; g < op.groups; g++) {
    worth[g] = worth_of(logits, g, scale);
  }
  for (var g = 0u; g < op.groups; g++) {
    if (is_among_best(g)) {
      kept[g / 32u] = kept[g / 32u] | (1u << (g % 32u));
    }
  }
}

fn is_kept(group: u32) -> bool {
  return (kept[group / 32u] & (1u << (group % 32u))) != 0u;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  if (row >= row_count()) {
    return;
  }
  let logits = op.logits_base + row * op.logits_stride;
  let out = op.out_base + row * op.out_stride;
  let scale = scale_of(logits);
  if (op.groups > 1u) {
    keep_best_groups(logits, scale);
  }
  var last = 0.0;
  var last_index = kNone;
  for (var slot = 0u; slot < op.top_k; slot++) {
    var best = 0u;
    var best_rank = 0.0;
    var found = false;
    for (var e = 0u; e < op.experts; e++) {
      let value = choice_in_groups(logits, e, scale);
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
  write_weights(logits, out, scale);
}
