// Sums and maxima over the 256 threads of a workgroup in a fixed order: 16 runs of 16 values, then
// the 16 results. Every thread gets the result. (Subgroup sums have no defined order.)
var<workgroup> reduce_values: array<f32, 256>;
var<workgroup> reduce_runs: array<f32, 16>;

fn sum_of_threads(t: u32, value: f32) -> f32 {
  reduce_values[t] = value;
  workgroupBarrier();
  if (t < 16u) {
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
      sum = sum + reduce_values[16u * t + i];
    }
    reduce_runs[t] = sum;
  }
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < 16u; i++) {
    total = total + reduce_runs[i];
  }
  return total;
}

fn max_of_threads(t: u32, value: f32) -> f32 {
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
