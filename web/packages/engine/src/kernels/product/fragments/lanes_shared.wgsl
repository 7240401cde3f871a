// Sums over the 32 lanes of a part without subgroups: all lanes leave their values, then one thread
// for each row of each part adds lanes 16 apart, then 8, 4, 2, 1: ((l0 + l16) + (l8 + l24)) + ...,
// the tree that lanes_subgroups.wgsl walks. A sum takes two barriers and no more, because software
// adapters pay dearly for them.
var<workgroup> lane_values: array<Eight, 32u * kParts>;

fn leave(v: Eight, t: u32) {
  workgroupBarrier();
  lane_values[t] = v;
  workgroupBarrier();
}

fn left_by(lane: u32, row: u32) -> f32 {
  return select(lane_values[lane].low[row & 3u], lane_values[lane].high[row & 3u], row >= 4u);
}

fn sum_of_lanes(first: u32, row: u32) -> f32 {
  var sums: array<f32, 16>;
  for (var i = 0u; i < 16u; i++) {
    sums[i] = left_by(first + i, row) + left_by(first + i + 16u, row);
  }
  for (var distance = 8u; distance > 0u; distance >>= 1u) {
    for (var i = 0u; i < distance; i++) {
      sums[i] = sums[i] + sums[i + distance];
    }
  }
  return sums[0];
}

// Afterwards `lane_sums[at + r]` is the sum of row r. `at` is that of the caller's own part.
fn sum_rows(v: Eight, t: u32, at: u32) {
  leave(v, t);
  if (t < 8u * kParts) {
    let part = t >> 3u;
    lane_sums[at + (part - (t >> 5u)) * kStride + (t & 7u)] = sum_of_lanes(32u * part, t & 7u);
  }
}

fn sum_one(v: f32, t: u32, at: u32) {
  leave(Eight(vec4(v, 0.0, 0.0, 0.0), vec4<f32>(0.0)), t);
  if (t < kParts) {
    lane_sums[at + t * kStride] = sum_of_lanes(32u * t, 0u);
  }
}
