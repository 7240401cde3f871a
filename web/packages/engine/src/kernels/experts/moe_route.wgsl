// Chooses the top_k experts of a row (ties to the lower index) and their weights: MoeRoute of ir.h.
// One thread a row: experts are few. A not-a-number ranks below everything.
fn rank(value: f32) -> f32 {
  let bits = bitcast<u32>(value);
  return select(max(value, -3.0e38), -3.4e38, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn is_softmax() -> bool {
  return op.kind == kRouteKindSoftmaxTopK || op.kind == kRouteKindSoftmaxTopKNormalized;
}

// Of the row: the greatest logit and the sum of exponentials below it. Of softmax alone.
struct Scale {
  largest: f32,
  sum: f32,
}

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

fn score(logit: f32, scale: Scale) -> f32 {
  if (!is_softmax()) {
    return 1.0 / (1.0 + exp(-logit));
  }
  return exp(logit - scale.largest) / scale.sum;
}

// What an expert is chosen by, but for its group.
fn choice(logits: u32, expert: u32, scale: Scale) -> f32 {
  let logit = act[logits + expert];
  if (op.bias == kNone && op.groups == 1u) {
    return rank(logit); // scores rise with logits
  }
  var value = score(logit, scale);
  if (op.bias != kNone) {
    value = value + vectors[op.bias + expert];
  }
  return rank(value);
}

// Bit g: experts of group g keep their choice.
var<private> kept: array<u32, (kMaxGroups + 31) / 32>;

fn keep_best_groups(logits: u32, scale: Scale) {
  let members = op.experts / op.groups;
  var worth: array<f32, kMaxGroups>;
  for (var g = 0u; g < op.groups; g++) {
    var first = -3.4e38;
    var second = -3.4e38;
    for (var e = g * members; e < (g + 1u) * members; e++) {
      let value = choice(logits, e, scale);
      if (value > first) {
        second = first;
        first = value;
      } else {
        second = max(second, value);
      }
    }
    worth[g] = select(first + second, first, op.group_best == 1u);
  }
  for (var g = 0u; g < op.groups; g++) {
    var better = 0u;
    for (var other = 0u; other < op.groups; other++) {
      let is_before = worth[other] == worth[g] && other < g;
      better = better + select(0u, 1u, worth[other] > worth[g] || is_before);
    }
    if (better < op.top_groups) {
      kept[g / 32u] = kept[g / 32u] | (1u << (g % 32u));
    }
  }
}

fn choice_in_groups(logits: u32, expert: u32, scale: Scale) -> f32 {
  if (op.groups > 1u) {
    let group = expert / (op.experts / op.groups);
    if ((kept[group / 32u] & (1u << (group % 32u))) == 0u) {
      return 0.0;
    }
  }
  return choice(logits, expert, scale);
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
  var factor = op.scale;
  if (op.kind == kRouteKindSoftmaxTopKNormalized || op.kind == kRouteKindSigmoidTopKNormalized) {
    var sum = 0.0;
    for (var slot = 0u; slot < op.top_k; slot++) {
      sum = sum + score(act[logits + u32(act[out + slot])], scale);
    }
    factor = factor / (sum + 1e-20);
  }
  for (var slot = 0u; slot < op.top_k; slot++) {
    act[out + op.top_k + slot] = score(act[logits + u32(act[out + slot])], scale) * factor;
  }
}
