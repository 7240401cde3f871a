// Best and second best logit of a row, and the parts of logsumexp, over stretches of the vocabulary
// (kMerge: of the stretches' results, which also hands the best token to the next embedding of the
// row's seat). Equal logits go by rising id.
struct Two {
  best: f32,
  best_id: u32,
  second: f32,
  second_id: u32,
}

var<workgroup> twos: array<Two, 256>;
var<workgroup> runs: array<Two, 16>;
var<workgroup> bad: atomic<u32>;

fn is_better(a: f32, a_id: u32, b: f32, b_id: u32) -> bool {
  return a > b || (a == b && a_id < b_id);
}

fn insert(two: Two, value: f32, id: u32) -> Two {
  if (is_better(value, id, two.best, two.best_id)) {
    return Two(value, id, two.best, two.best_id);
  }
  if (is_better(value, id, two.second, two.second_id)) {
    return Two(two.best, two.best_id, value, id);
  }
  return two;
}

fn both(a: Two, b: Two) -> Two {
  return insert(insert(a, b.best, b.best_id), b.second, b.second_id);
}

// The best two of all threads to runs[0]; a barrier is behind it.
fn choose(t: u32, two: Two) {
  twos[t] = two;
  workgroupBarrier();
  if (t < 16u) {
    var mine = twos[16u * t];
    for (var i = 1u; i < 16u; i++) {
      mine = both(mine, twos[16u * t + i]);
    }
    runs[t] = mine;
  }
  workgroupBarrier();
  if (t == 0u) {
    var mine = runs[0];
    for (var i = 1u; i < 16u; i++) {
      mine = both(mine, runs[i]);
    }
    runs[0] = mine;
  }
  workgroupBarrier();
}

const kNoTwo = Two(-3.4e38, kNone, -3.4e38, kNone);

// The stretch's sum of exp(logit - best) to every thread; its two best are in runs[0].
fn stretch(row: u32, part: u32, t: u32) -> f32 {
  let logits = op.logits_base + row * op.logits_stride;
  let size = (op.vocabulary + op.stretches - 1u) / op.stretches;
  let end = min(op.vocabulary, (part + 1u) * size);
  var two = kNoTwo;
  for (var i = part * size + t; i < end; i += 256u) {
    let value = act[logits + i];
    if (is_finite(value)) {
      two = insert(two, value, i);
    } else {
      atomicAdd(&bad, 1u);
    }
  }
  choose(t, two);
  let largest = runs[0].best;
  var sum = 0.0;
  for (var i = part * size + t; i < end; i += 256u) {
    sum = sum + exp(act[logits + i] - largest);
  }
  return sum_of_threads(t, sum);
}

// What stretch t left: its sum of exp(logit - best of all) to every thread, both best in runs[0].
fn merge(row: u32, t: u32) -> f32 {
  let at = op.partial_at + 8u * (row * op.stretches + t);
  var two = kNoTwo;
  if (t < op.stretches) {
    two = Two(bitcast<f32>(aux[at + 1u]), aux[at], bitcast<f32>(aux[at + 3u]), aux[at + 2u]);
    atomicAdd(&bad, aux[at + 5u]);
  }
  choose(t, two);
  var sum = 0.0;
  if (two.best_id != kNone) {
    sum = bitcast<f32>(aux[at + 4u]) * exp(two.best - runs[0].best);
  }
  return sum_of_threads(t, sum);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  if (t == 0u) {
    atomicStore(&bad, 0u);
  }
  workgroupBarrier();
  let row = workgroup.y;
  var sum = 0.0;
  var at = op.result_at + row * op.result_stride;
  if (kMerge) {
    sum = merge(row, t);
  } else {
    sum = stretch(row, workgroup.x, t);
    at = op.partial_at + 8u * (row * op.stretches + workgroup.x);
  }
  if (t != 0u) {
    return;
  }
  let two = runs[0];
  aux[at] = two.best_id;
  aux[at + 1u] = bitcast<u32>(two.best);
  aux[at + 2u] = two.second_id;
  aux[at + 3u] = bitcast<u32>(two.second);
  aux[at + 4u] = bitcast<u32>(sum);
  aux[at + 5u] = atomicLoad(&bad);
  if (kMerge) {
    let source = row_source(row);
    aux[op.chain_at + row_seat(source)] = two.best_id;
    if (step[kStepHistorySlot] != kNone) {
      aux[op.history_at + step[kStepHistorySlot] + source] = two.best_id;
    }
  }
}
