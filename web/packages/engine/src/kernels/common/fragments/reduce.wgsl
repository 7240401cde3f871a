// Sums and maxima over the 256 threads of a workgroup in a fixed order: 16 runs of 16 values, then
// the 16 results. Every thread gets the result. (Subgroup sums have no defined order.) `Reduced` is
// f32, or a vec of values that are reduced each by itself (common/reduce.ts).
var<workgroup> reduce_values: array<Reduced, 256>;
var<workgroup> reduce_runs: array<Reduced, 16>;

fn sum_of_threads(t: u32, value: Reduced) -> Reduced {
  reduce_values[t] = value;
  workgroupBarrier();
  if (t < 16u) {
    var sum = Reduced(0.0);
    for (var i = 0u; i < 16u; i++) {
      sum = sum + reduce_values[16u * t + i];
    }
    reduce_runs[t] = sum;
  }
  workgroupBarrier();
  var total = Reduced(0.0);
  for (var i = 0u; i < 16u; i++) {
    total = total + reduce_runs[i];
  }
  return total;
}

fn max_of_threads(t: u32, value: Reduced) -> Reduced {
  reduce_values[t] = value;
  workgroupBarrier();
  if (t < 16u) {
    var most = reduce_values[16u * t];
    for (var i = 1u; i < 16u; i++) {
      most = max(most, reduce_values[16u * t + i]);
    }
    reduce_runs[t] = most;
  }
  workgroupBarrier();
  var most = reduce_runs[0];
  for (var i = 1u; i < 16u; i++) {
    most = max(most, reduce_runs[i]);
  }
  return most;
}
