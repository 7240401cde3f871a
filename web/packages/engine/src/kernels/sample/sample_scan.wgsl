// The second step of a search's level, behind sample_histogram.wgsl: in which bin lies the first
// place (by falling logit) where the running count or mass exceeds the target? The last level
// settles the search: a cut (top_k, top_p) leaves the mass up to its place, the draw its token's
// key and rank among equals.
var<workgroup> counts: array<u32, 256>;
var<workgroup> lows: array<u32, 256>;
var<workgroup> highs: array<u32, 256>;

// Gives `whole` times `part` / 2^32, rounded down, and in z whether anything was rounded off.
fn part_of(whole: vec2<u32>, part: u32) -> vec3<u32> {
  let low = product(whole.x, part);
  let sum = plus(product(whole.y, part), vec2(low.y, 0u));
  return vec3(sum.x, sum.y, select(0u, 1u, low.x != 0u));
}

// Gives `whole` times `part` / 2^64, rounded down.
fn fine_part_of(whole: vec2<u32>, part: vec2<u32>) -> vec2<u32> {
  let low = product(whole.x, part.x).y;
  let first = plus(product(whole.x, part.y), vec2(low, 0u));
  let second = plus(product(whole.y, part.x), vec2(first.x, 0u));
  return plus(product(whole.y, part.y), plus(vec2(first.y, 0u), vec2(second.y, 0u)));
}

// The number in [0, 1) of (position, draw 0) in units of 2^-64: 53 bits of Philox-4x32-10, as
// base/random.h has them.
fn random_part(position: u32) -> vec2<u32> {
  var counter = vec4(position, 0u, 0u, 0u);
  var key = wide(kSeed);
  for (var round = 0u; round < 10u; round++) {
    let a = product(0xD2511F53u, counter.x);
    let b = product(0xCD9E8D57u, counter.z);
    counter = vec4(b.y ^ counter.y ^ key.x, b.x, a.y ^ counter.w ^ key.y, a.x);
    key = key + vec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return vec2(counter.y & 0xfffff800u, counter.x);
}

// What the running count or mass must exceed.
fn target_of(mass: vec2<u32>, count: u32) -> vec2<u32> {
  if (op.purpose == kPurposeTopK) {
    return vec2(min(word(kTopKLast), count - 1u), 0u);
  }
  if (op.purpose == kPurposeTopP) {  // "reaches p" is "exceeds anything less than p"
    let least = part_of(mass, word(kTopPPart));
    let is_exact = least.z == 0u && (least.x != 0u || least.y != 0u);
    return minus(least.xy, vec2(select(0u, 1u, is_exact), 0u));
  }
  // A position's number is its own index; the token that is chosen stands behind the row.
  return fine_part_of(mass, random_part(row_word(own_row, kRowPosition) + 1u));
}

// How many tokens of mass `units` come before the one that exceeds `rest`.
fn rank_of(rest: vec2<u32>, units: vec2<u32>, count: u32) -> u32 {
  var rank = 0u;
  for (var bit = 1u << 20u; bit > 0u; bit >>= 1u) {
    let next = rank + bit;
    if (next < count && !is_less(rest, times(units, next))) {
      rank = next;
    }
  }
  return rank;
}

fn times(units: vec2<u32>, count: u32) -> vec2<u32> {
  return plus(product(units.x, count), vec2(0u, units.y * count));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  begin_row(workgroup.y);
  if (is_skipped(t, !asks_for(op.purpose))) {
    return;
  }
  let bin = kBins + select(256u * kBinWords, 0u, op.level == 0u) + kBinWords * t;
  let count = word(bin);
  let mass = wide(bin + 1u);
  let units = wide(bin + 3u);
  let smallest = ~word(bin + 5u);
  var target_place = wide(kTarget);
  let prefix = word(kPrefix);
  let before_count = word(kBeforeCount);
  let before_mass = wide(kBeforeMass);
  var left = wide(kMass);
  let min_p_mass = wide(kMinPMass);

  // Running sums: within 16 runs of 16 bins, then over the runs in front.
  counts[t] = count;
  lows[t] = mass.x;
  highs[t] = mass.y;
  workgroupBarrier();
  if (t < 16u) {
    for (var i = 16u * t + 1u; i < 16u * t + 16u; i++) {
      let sum = plus(vec2(lows[i], highs[i]), vec2(lows[i - 1u], highs[i - 1u]));
      counts[i] += counts[i - 1u];
      lows[i] = sum.x;
      highs[i] = sum.y;
    }
  }
  workgroupBarrier();
  var end_count = counts[t];
  var end_mass = vec2(lows[t], highs[t]);
  var all_count = 0u;
  var all_mass = vec2(0u, 0u);
  for (var i = 15u; i < 256u; i += 16u) {
    let run = vec2(lows[i], highs[i]);
    if (i < t && (i >> 4u) != (t >> 4u)) {
      end_count += counts[i];
      end_mass = plus(end_mass, run);
    }
    all_count += counts[i];
    all_mass = plus(all_mass, run);
  }
  storageBarrier();

  if (op.level == 0u) {
    if (left.x == 0u && left.y == 0u) {
      left = all_mass;
    }
    if (op.purpose == kPurposeDraw && (min_p_mass.x != 0u || min_p_mass.y != 0u)) {
      left = select(left, min_p_mass, is_less(min_p_mass, left));
    }
    target_place = target_of(left, all_count);
    if (t == 0u) {
      put_wide(kMass, left);
      put_wide(kTarget, target_place);
    }
  } else {
    end_count += before_count;
    end_mass = plus(end_mass, before_mass);
    for (var i = 0u; i < kBinWords; i++) {
      put(bin + i, 0u);
    }
  }
  let begin_count = end_count - count;
  let begin_mass = minus(end_mass, mass);
  let by_count = op.purpose == kPurposeTopK;
  let begin = select(begin_mass, vec2(begin_count, 0u), by_count);
  let end = select(end_mass, vec2(end_count, 0u), by_count);
  if (is_less(target_place, begin) || !is_less(target_place, end)) {
    return;
  }
  let shift = 24u - 8u * op.level;
  put(kPrefix, select(prefix, 0u, op.level == 0u) | (t << shift));
  put(kBeforeCount, begin_count);
  put_wide(kBeforeMass, begin_mass);
  if (op.level < 3u) {
    return;
  }
  let rest = minus(target_place, begin);
  var rank = rest.x;
  if (!by_count) {
    rank = rank_of(rest, units, count);
  }
  if (op.purpose == kPurposeDraw) {
    put(kRank, rank);
    put(kSmallestId, smallest);
  } else {
    put_wide(kMass, plus(begin_mass, times(units, rank + 1u)));
  }
}
