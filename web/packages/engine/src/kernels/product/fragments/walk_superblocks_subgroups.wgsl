// The sums of walk_superblocks.wgsl by shuffles, without barriers in between: 32 lanes are the
// eight blocks of a superblock, four lanes each. Each lane multiplies its block with a quarter of
// the outputs, and three exchanges leave each lane with one output's sum over the superblock. When
// kSlots superblocks are walked, all threads scale the terms of these sums. Then the
// thread that an output belongs to adds its terms up, in rising order.
//
// For instance with 32 outputs lane 22 (lane 2 of block 5) multiplies block 5 of outputs 16 to 23.
// Lane 6 gets its sums of 16 to 19, lane 30 those of 22 and 23, and lane 18 that of 20. What they
// give in return is added, so that lane 22 ends with output 21 of all eight blocks.
const kTotals = kOutputs * kTileRows;
const kSlots = min(kMostTerms / kTotals, kMostSlots);  // superblocks at once
const kSharingRows = 4u;

var<workgroup> terms: array<Term, kMostTerms>;

// One of two sums with the partner's part of it: `a` for lower lanes, `b` for upper ones.
fn crossed(a: Found, b: Found, is_upper: bool, distance: u32) -> Found {
  return select(a, b, is_upper) + subgroupShuffleXor(select(b, a, is_upper), distance);
}

// The sum over the superblock of the lane's own output, which is `own_local` of its kLaneRows.
fn superblock_sum(v: array<Found, kLaneRows>, t: u32) -> Found {
  let a = (t & 16u) != 0u;
  let b = (t & 8u) != 0u;
  let c = (t & 4u) != 0u;
  const half = kLaneRows / 2u;
  const quarter = kLaneRows / 4u;
  let first = crossed(v[0], v[half], a, 16u);
  if (kLaneRows == 2u) {
    let both = first + subgroupShuffleXor(first, 8u);
    return both + subgroupShuffleXor(both, 4u);
  }
  let second = crossed(v[quarter], v[half + quarter], a, 16u);
  let left = crossed(first, second, b, 8u);
  if (kLaneRows == 4u) {
    return left + subgroupShuffleXor(left, 4u);
  }
  const third = half - 1u;  // of eight rows 3, as quarter - 1 is 1
  let between = crossed(v[quarter / 2u], v[half + quarter / 2u], a, 16u);
  let last = crossed(v[third], v[half + third], a, 16u);
  return crossed(left, crossed(between, last, b, 8u), c, 4u);
}

fn own_local(t: u32) -> u32 {
  return ((t >> 4u) & 1u) * (kLaneRows / 2u) + ((t >> 3u) & 1u) * (kLaneRows / 4u) +
    ((t >> 2u) & 1u) * (kLaneRows / 8u);
}

// Lanes that end with the same output as another one.
fn is_double(t: u32) -> bool {
  return (t & (4u * (8u / kLaneRows - 1u))) != 0u;
}

// The products of a superblock with the lane's outputs. `end`: of the superblocks to be walked.
fn multiply_superblock(group: u32, superblock: u32, end: u32, t: u32,
                       rows: array<u32, kTileRows>) {
  let q = t & 3u;
  let b = 8u * superblock + ((t >> 2u) & 7u);
  let block = min(b, op.blocks - 1u);
  let first_local = kLaneRows * q;
  let first = first_local & 7u;
  let stored = select(vec4<u32>(0u), pairs_of(group, block), b == block);
  let pairs = lane_halves(stored, q);
//* each r of kEachRow
  let words_$r = load_block(8u * group + first + $ru, block);
//* end
//* each r of kEachRow
  let levels_$r = levels_of(words_$r, group, block, first + $ru);
  let pair_$r = pairs[$ru >> 1u] >> (16u * ($ru & 1u));
  let shared_$r = tile_weight(levels_$r, pair_$r);  // where enough rows make it pay
//* end
  var tile = rows;
  for (var m = 0u; m < kTileRows; m++) {
    let x = block_inputs(tile[m], b, t);
    var found: array<Found, kLaneRows>;
//* each r of kEachRow
    let least_$r = least_of(pair_$r, x.halves.x + x.halves.y);
//* end
    if (kTileRows >= kSharingRows) {
//* each r of kEachRow
      found[$r] = found_of(
        tile_sum(shared_$r, pair_$r, x.low_a, x.low_b, x.high_a, x.high_b), least_$r);
//* end
    } else {
//* each r of kEachRow
      found[$r] = found_of(block_sum(levels_$r, pair_$r, x), least_$r);
//* end
    }
    let total = superblock_sum(found, t);
    if (superblock < end && !is_double(t)) {
      terms[kTotals * (superblock % kSlots) + kOutputs * m + first_local + own_local(t)] =
        begun_term(total);
    }
  }
}

// Scales of the terms of superblocks `begin` to `end`. A tile's totals are outputs of one row after
// another.
fn scale_terms(base: u32, first_group: u32, last_group: u32, begin: u32, end: u32, t: u32,
              rows: array<u32, kTileRows>) {
  var tile = rows;
  for (var i = t; i < (end - begin) * kTotals; i += kThreads) {
    let superblock = begin + i / kTotals;
    let total = i % kTotals;
    let local = total % kOutputs;
    let group = base + min(first_group + (local >> 3u), last_group);
    let at = kTotals * (superblock % kSlots) + total;
    terms[at] = scaled_term(terms[at], group, superblock, local & 7u, tile[total / kOutputs]);
  }
}

// As in walk_superblocks.wgsl.
fn output_total(base: u32, first_group: u32, last_group: u32, t: u32,
                rows: array<u32, kTileRows>) -> f32 {
  let group = base + min(first_group + ((kLaneRows * (t & 3u)) >> 3u), last_group);
  var total = 0.0;
  for (var begin = 0u; begin < superblocks(); begin += kSlots) {
    let end = min(begin + kSlots, superblocks());
    for (var at = begin; at < end; at += kThreads / 32u) {
      multiply_superblock(group, at + (t >> 5u), end, t, rows);
    }
    workgroupBarrier();
    scale_terms(base, first_group, last_group, begin, end, t, rows);
    workgroupBarrier();
    if (t < kTotals) {
      for (var superblock = begin; superblock < end; superblock++) {
        total = add_term(total, terms[kTotals * (superblock % kSlots) + t]);
        add_superblock_squares(superblock);
      }
    }
    if (end < superblocks()) {
      workgroupBarrier();
    }
  }
  return total;
}
