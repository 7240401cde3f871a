// The choice of an expert of a row, and the weights of the chosen ones: MoeRoute of ir.h. The
// kernels keep what their groups are worth (`worth`) and which of them stay (is_kept), and tell how
// the scores are scaled. A not-a-number ranks below everything.
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

// Of group g: the best of its experts, or its two best.
fn worth_of(logits: u32, g: u32, scale: Scale) -> f32 {
  let members = op.experts / op.groups;
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
  return select(first + second, first, op.group_best == 1u);
}

// Whether group g, by its `worth` in the kernel's array, is among the groups that stay. Of equal
// ones the lower index is better.
fn is_among_best(g: u32) -> bool {
  var better = 0u;
  for (var other = 0u; other < op.groups; other++) {
    let is_before = worth[other] == worth[g] && other < g;
    better = better + select(0u, 1u, worth[other] > worth[g] || is_before);
  }
  return better < op.top_groups;
}

// The choice of an expert whose group may have been left out.
fn choice_in_groups(logits: u32, expert: u32, scale: Scale) -> f32 {
  if (op.groups > 1u) {
    let group = expert / (op.experts / op.groups);
    if (!is_kept(group)) {
      return 0.0;
    }
  }
  return choice(logits, expert, scale);
}

// Behind the chosen experts at `out`, their weights, and all parts of both. One thread: experts of
// a row are few. Parts are written from the last one on, as the chosen experts come first.
fn write_weights(logits: u32, out: u32, scale: Scale) {
  var factor = op.scale;
  if (op.kind == kRouteKindSoftmaxTopKNormalized || op.kind == kRouteKindSigmoidTopKNormalized) {
    var sum = 0.0;
    for (var slot = 0u; slot < op.top_k; slot++) {
      sum = sum + score(act[logits + u32(act[out + slot])], scale);
    }
    factor = factor / (sum + 1e-20);
  }
  let weights = out + op.top_k * op.parts;
  for (var slot = op.top_k; slot > 0u; slot--) {
    let expert = act[out + slot - 1u];
    let weight = score(act[logits + u32(expert)], scale) * factor;
    for (var part = op.parts; part > 0u; part--) {
      let at = (slot - 1u) * op.parts + part - 1u;
      act[out + at] = expert * f32(op.parts) + f32(part - 1u);
      act[weights + at] = weight;
    }
  }
}
