// The rows of every expert together, in tiles of kTileRows: what products of many rows with the
// matrices of experts walk (tile_gathered.wgsl). One workgroup counts what each expert has, gives
// out tiles, and deals out pairs of a row and a slot of its route. Pairs of weight 0 are left out:
// experts of another binding have it (moe_part.wgsl), and such a pair adds nothing.
//
//   routes of 3 rows, 2 slots    pairs 0..5 have experts 7 2 | 2 5 | 2 7
//   tiles of 4 rows              3 tiles: expert 2 with pairs 1 2 4, expert 5 with 3, 7 with 0 5
//
// In `aux`: four words, of which the first counts tiles; then, for each tile, four words of which
// the first is its expert, and kTileRows pairs. Where there is none it is kNone. The order of an
// expert's pairs may differ from run to run; their sums do not depend on it.
const kThreads = 256u;
const kEach = kMostExperts / kThreads;  // experts of a thread
const kTileWords = kTileRows + 4u;

var<workgroup> counts: array<atomic<u32>, kMostExperts>;
var<workgroup> first_tiles: array<u32, kMostExperts>;
var<workgroup> sums: array<u32, kThreads>;

// Where slot `at` of an expert's rows lies.
fn place_of(expert: u32, at: u32) -> u32 {
  let tile = first_tiles[expert] + at / kTileRows;
  return op.order_base + 4u + kTileWords * tile + 4u + at % kTileRows;
}

// The expert of a pair, or kNone.
fn expert_of(pair: u32) -> u32 {
  let slot = op.route_base + pair / op.top_k * op.route_stride + pair % op.top_k;
  return select(u32(act[slot]), kNone, act[slot + op.top_k] == 0.0);
}

fn tiles_of(count: u32) -> u32 {
  return (count + kTileRows - 1u) / kTileRows;
}

// Tiles of the experts of threads before t.
fn tiles_before(t: u32, own: u32) -> u32 {
  sums[t] = own;
  workgroupBarrier();
  for (var distance = 1u; distance < kThreads; distance *= 2u) {
    var sum = sums[t];
    if (t >= distance) {
      sum += sums[t - distance];
    }
    workgroupBarrier();
    sums[t] = sum;
    workgroupBarrier();
  }
  return sums[t] - own;
}

@compute @workgroup_size(kThreads)
fn main(@builtin(local_invocation_index) t: u32) {
  let pairs = row_count() * op.top_k;
  for (var pair = t; pair < pairs; pair += kThreads) {
    let expert = expert_of(pair);
    if (expert != kNone) {
      atomicAdd(&counts[expert], 1u);
    }
  }
  workgroupBarrier();
  var own = 0u;
  for (var i = 0u; i < kEach; i++) {
    own += tiles_of(atomicLoad(&counts[kEach * t + i]));
  }
  var tile = tiles_before(t, own);
  if (t == kThreads - 1u) {
    aux[op.order_base] = tile + own;
  }
  for (var i = 0u; i < kEach; i++) {
    let expert = kEach * t + i;
    let count = atomicExchange(&counts[expert], 0u);
    first_tiles[expert] = tile;
    for (var j = 0u; j < tiles_of(count); j++) {
      aux[op.order_base + 4u + kTileWords * (tile + j)] = expert;
    }
    for (var at = count; at < kTileRows * tiles_of(count); at++) {
      aux[place_of(expert, at)] = kNone;
    }
    tile += tiles_of(count);
  }
  workgroupBarrier();
  for (var pair = t; pair < pairs; pair += kThreads) {
    let expert = expert_of(pair);
    if (expert != kNone) {
      aux[place_of(expert, atomicAdd(&counts[expert], 1u))] = pair;
    }
  }
}
