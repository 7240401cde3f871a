// Sums over the 32 lanes of a part without subgroups: lanes 16 apart, then 8, 4, 2, 1.
var<workgroup> lane_values: array<Eight, 32u * kParts>;

fn eight_sum(a: Eight, b: Eight) -> Eight {
  return Eight(a.low + b.low, a.high + b.high);
}

fn sum_lanes(v: Eight, t: u32) -> Eight {
  var sum = v;
  for (var distance = 16u; distance > 0u; distance >>= 1u) {
    workgroupBarrier();
    lane_values[t] = sum;
    workgroupBarrier();
    sum = eight_sum(sum, lane_values[t ^ distance]);
  }
  return sum;
}

// Afterwards `lane_sums[at + r]` is the sum of row r.
fn sum_rows(v: Eight, t: u32, at: u32) {
  let sum = sum_lanes(v, t);
  if ((t & 31u) == 0u) {
    for (var r = 0u; r < 4u; r++) {
      lane_sums[at + r] = sum.low[r];
      lane_sums[at + 4u + r] = sum.high[r];
    }
  }
}

fn sum_one(v: f32, t: u32, at: u32) {
  let sum = sum_lanes(Eight(vec4(v, 0.0, 0.0, 0.0), vec4<f32>(0.0)), t);
  if ((t & 31u) == 0u) {
    lane_sums[at] = sum.low.x;
  }
}
