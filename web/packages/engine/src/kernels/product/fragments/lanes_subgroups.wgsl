// Sums over the 32 lanes of a part by shuffles, which have a defined order (subgroupAdd has none):
// lanes 16 apart, then 8, 4, 2, 1. lanes_shared.wgsl gives the same bits.
//
// Eight rows are summed at once. Each of the first three exchanges halves what a lane still has to
// carry: of two rows a lane keeps one and gives the other one away. Lanes 16 apart have 8 rows
// each; the lower lane keeps rows 0 to 3, the upper one rows 4 to 7. Lanes 8 apart keep two rows of
// these four, lanes 4 apart one, and that one is summed over the last four lanes. So 4 + 2 + 1 + 1
// + 1 = 9 shuffles do what 8 rows of five shuffles each would do, and lane 4 r ends with row r.

// One of two rows with the partner's part of it: `a` for lower lanes, `b` for upper ones.
fn crossed(a: f32, b: f32, is_upper: bool, distance: u32) -> f32 {
  return select(a, b, is_upper) + subgroupShuffleXor(select(b, a, is_upper), distance);
}

// Afterwards `lane_sums[at + r]` is the sum of row r.
fn sum_rows(v: Eight, t: u32, at: u32) {
  let a = (t & 16u) != 0u;
  let w = vec4(crossed(v.low.x, v.high.x, a, 16u), crossed(v.low.y, v.high.y, a, 16u),
               crossed(v.low.z, v.high.z, a, 16u), crossed(v.low.w, v.high.w, a, 16u));
  let b = (t & 8u) != 0u;
  let x = vec2(crossed(w.x, w.z, b, 8u), crossed(w.y, w.w, b, 8u));
  var y = crossed(x.x, x.y, (t & 4u) != 0u, 4u);
  y = y + subgroupShuffleXor(y, 2u);
  y = y + subgroupShuffleXor(y, 1u);
  if ((t & 3u) == 0u) {
    lane_sums[at + ((t >> 2u) & 7u)] = y;
  }
}

fn sum_one(v: f32, t: u32, at: u32) {
  var y = v + subgroupShuffleXor(v, 16u);
  y = y + subgroupShuffleXor(y, 8u);
  y = y + subgroupShuffleXor(y, 4u);
  y = y + subgroupShuffleXor(y, 2u);
  y = y + subgroupShuffleXor(y, 1u);
  if ((t & 31u) == 0u) {
    lane_sums[at] = y;
  }
}
