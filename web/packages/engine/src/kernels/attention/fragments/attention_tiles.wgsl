// Attention of several rows (attention_sessions.wgsl), for 16 queries at a time: attention.wgsl
// with the same bits. A prompt's attention is limited by what threads read, so each makes 16
// results of what it has read instead of one.
//
// Scores of a chunk are [16 queries, 256 positions]. Thread t has the positions 4 (t % 64) to
// 4 (t % 64) + 3 and the queries 4 (t / 64) to 4 (t / 64) + 3: one key's vec4 of positions meets
// four queries. Columns are added in pairs, in the order of score_of in attention.wgsl.
//
// Values of a chunk are [16 queries, kPairs]. A thread has four pairs, a lane and four queries; the
// positions p with p % kLanes equal to the lane are its own, as in attention.wgsl:
//
//   columns of a head  kPairs  kLanes   threads along [pairs, lanes, queries]
//                 128      64       4      16 x  4 x 4 = 256
//                  80      40       6      10 x  6 x 4 = 240, the others wait
//                  16       8      32       2 x 32 x 4 = 256
//
// The weights exp(score - largest) are in registers of the threads that made them. kRoundKeys
// positions of them at a time (a round) go to workgroup memory, where every thread finds those of
// its queries side by side. At the end kMergeQueries queries at a time bring their lanes together
// there and are merged with the chunks before, a pair of columns a thread. Devices with 32 KiB of
// workgroup memory have rounds of 128 positions and merge four queries at a time.
const kQueries = 16u;
const kRoundRuns = kRoundKeys / 16u;
const kMergeVecs = 128u * kMergeQueries;
const kPlaceVecs = (kQueries + 4u) / 4u;
const kLanes = 256u / kPairs;  // of values: part of the order of sums

var<workgroup> query: array<vec4<f32>, kQueries * kPairs / 2u>;  // [query][two pairs]
// Weights, [place of a position][query], and whatever is summed. Four more values a place let
// neighbours hit different banks.
var<workgroup> shared_values: array<vec4<f32>, max(kPlaceVecs * kRoundKeys, kMergeVecs)>;
var<workgroup> runs: array<f32, kQueries * 16u>;
var<workgroup> largest: array<f32, kQueries>;
var<workgroup> totals: array<f32, kQueries>;
var<workgroup> positions: array<u32, kQueries>;  // kNone: no query of this session
var<workgroup> all_largest: array<f32, kQueries>;  // of the chunks until now
var<workgroup> all_totals: array<f32, kQueries>;

// What a thread adds up: of four queries, columns 2 i and 2 i + 1 of four pairs.
struct Values {
  x: array<vec4<f32>, 4>,
  y: array<vec4<f32>, 4>,
}

fn sees(position: u32, at: vec4<u32>) -> vec4<bool> {
  let is_seen = (at <= vec4(position)) & (at >= vec4(first_visible(position)));
  return is_seen & vec4(position != kNone);
}

fn sees_chunk(position: u32, begin: u32) -> bool {
  return position != kNone && begin <= position && begin + kChunk > first_visible(position);
}

fn finished(sums: vec4<f32>) -> vec4<f32> {
  let scores = sums * op.scale;
  if (op.softcap != 0.0) {
    let capped = scores / op.softcap;
    return op.softcap *
      vec4(tanh_of(capped.x), tanh_of(capped.y), tanh_of(capped.z), tanh_of(capped.w));
  }
  return scores;
}

// The products of four queries with the keys at the four positions from `slot` of a page on, added
// pair after pair.
fn scores_of(page: u32, kv_head: u32, slot: u32, first_query: u32) -> array<vec4<f32>, 4> {
  var sums = array<vec4<f32>, 4>();
  for (var pair = 0u; pair < kPairs; pair += 4u) {
//* each i of kUnroll
    let key_$i = load_keys(page, kv_head, pair + $iu, slot);
//* end
//* each q of kThreadQueries
    {
      let at = ((first_query + $qu) * kPairs + pair) >> 1u;
      let low = query[at];
      let high = query[at + 1u];
      var sum = fma(vec4(low.y), key_0.y, fma(vec4(low.x), key_0.x, sums[$q]));
      sum = fma(vec4(low.w), key_1.y, fma(vec4(low.z), key_1.x, sum));
      sum = fma(vec4(high.y), key_2.y, fma(vec4(high.x), key_2.x, sum));
      sums[$q] = fma(vec4(high.w), key_3.y, fma(vec4(high.z), key_3.x, sum));
    }
//* end
  }
  return sums;
}

fn shared_value(at: u32) -> f32 {
  return shared_values[at >> 2u][at & 3u];
}

// The vec4 of the first four weights of a position of a round: 0, 4, 8, .. then 1, 5, 9, ..
fn place_of(position: u32) -> u32 {
  return kPlaceVecs * (kRoundKeys / 4u * (position & 3u) + ((position & (kRoundKeys - 1u)) >> 2u));
}

// Writes the weights of a thread: of four queries, for the four positions of a key group.
fn leave_weights(key_group: u32, first_query: u32, own: array<vec4<f32>, 4>) {
  let at = place_of(4u * key_group) + (first_query >> 2u);
  shared_values[at] = vec4(own[0].x, own[1].x, own[2].x, own[3].x);
  shared_values[at + kRoundKeys / 4u * kPlaceVecs] = vec4(own[0].y, own[1].y, own[2].y, own[3].y);
  shared_values[at + kRoundKeys / 2u * kPlaceVecs] = vec4(own[0].z, own[1].z, own[2].z, own[3].z);
  shared_values[at + 3u * kRoundKeys / 4u * kPlaceVecs] =
    vec4(own[0].w, own[1].w, own[2].w, own[3].w);
}

// Four pairs of the value at a position of the chunk.
fn value_at(position: u32, kv_head: u32, pair: u32) -> PairsOfFour {
  return load_values(chunk_pages[position >> 5u], kv_head, pair, position & 31u);
}

fn load_queries(tile: Tile, t: u32) {
  for (var i = t; i < kQueries * kPairs / 2u; i += 256u) {
    let q = i / (kPairs / 2u);
    let column = 4u * (i % (kPairs / 2u));
    let row = min(row_of(tile, q), tile.row_end - 1u);
    let head = min(head_of(tile, q), op.heads - 1u);
    let at = op.q_base + row * op.q_stride + head * op.head_columns + column;
    let last = select(0.0, act[at + 3u], column + 3u < op.head_columns);
    query[i] = vec4(act[at], act[at + 1u], act[at + 2u], last);
  }
}

// Brings the largest score of each query to `largest`; `own` are those of this thread.
fn find_largest(own: array<f32, 4>, t: u32) {
  let first = 4u * (t >> 6u);
//* each q of kThreadQueries
  shared_values[((first + $qu) * 64u + (t & 63u)) >> 2u][t & 3u] = own[$q];
//* end
  workgroupBarrier();
  let four = shared_values[t];
  runs[t] = max(max(four.x, four.y), max(four.z, four.w));
  workgroupBarrier();
  if (t < kQueries) {
    var most = runs[16u * t];
    for (var i = 1u; i < 16u; i++) {
      most = max(most, runs[16u * t + i]);
    }
    largest[t] = most;
  }
  workgroupBarrier();
}

// The sum of all 256 weights of a query in the order of sum_of_threads (reduce.wgsl), which has 16
// runs of 16: a round is some of the runs.
fn sum_runs(round: u32, t: u32) {
  if (t < kRoundRuns * kQueries) {
    let run = t % kRoundRuns;
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
      sum = sum + shared_value(4u * place_of(16u * run + i) + t / kRoundRuns);
    }
    runs[16u * (t / kRoundRuns) + kRoundRuns * round + run] = sum;
  }
}

fn find_totals(t: u32) {
  if (t < kQueries) {
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
      sum = sum + runs[16u * t + i];
    }
    totals[t] = sum;
  }
}

// Adds the values of a chunk's positions [hidden, count), each times its weight. What was not set
// begins with zeros. The thread has four pairs, a lane of positions and four queries.
fn values_of_chunk(own: array<vec4<f32>, 4>, hidden: u32, count: u32, kv_head: u32,
                   t: u32) -> Values {
  let key_group = t & 63u;
  let pair = 4u * (t % (kPairs / 4u));
  let lane = t / (kPairs / 4u) % kLanes;
  let value_queries = t / (kPairs / 4u) / kLanes;
  var p = hidden / kLanes * kLanes + lane;
  var sums = Values();
  for (var round = 0u; round * kRoundKeys < count; round++) {
    workgroupBarrier();
    if (4u * key_group / kRoundKeys == round) {
      leave_weights(key_group, 4u * (t >> 6u), own);
    }
    workgroupBarrier();
    sum_runs(round, t);
    // Threads without queries have nothing to add.
    let round_end = select(0u, min(count, (round + 1u) * kRoundKeys), value_queries < 4u);
    // Four loads on their way at a time.
    for (; p + 3u * kLanes < round_end; p += 4u * kLanes) {
//* each i of kUnroll
      let value_$i = value_at(p + $iu * kLanes, kv_head, pair);
//* end
//* each i of kUnroll
      {
        let weights = shared_values[place_of(p + $iu * kLanes) + value_queries];
//* each q of kThreadQueries
        sums.x[$q] = fma(vec4(weights[$q]), value_$i.x, sums.x[$q]);
        sums.y[$q] = fma(vec4(weights[$q]), value_$i.y, sums.y[$q]);
//* end
      }
//* end
    }
    for (; p < round_end; p += kLanes) {
      let value = value_at(p, kv_head, pair);
      let weights = shared_values[place_of(p) + value_queries];
//* each q of kThreadQueries
      sums.x[$q] = fma(vec4(weights[$q]), value.x, sums.x[$q]);
      sums.y[$q] = fma(vec4(weights[$q]), value.y, sums.y[$q]);
//* end
    }
  }
  return sums;
}

// [query of kMergeQueries][lane][pair], two values each
fn leave_lanes(q: u32, t: u32, x: vec4<f32>, y: vec4<f32>) {
  let pair = 4u * (t % (kPairs / 4u));
  let lane = t / (kPairs / 4u) % kLanes;
  let at = 128u * q + ((lane * kPairs + pair) >> 1u);
  shared_values[at] = vec4(x.x, y.x, x.y, y.y);
  shared_values[at + 1u] = vec4(x.z, y.z, x.w, y.w);
}

fn sum_of_lanes(q: u32, pair: u32) -> vec2<f32> {
  var value = vec2(0.0);
  for (var i = 0u; i < kLanes; i++) {
    let at = 512u * q + 2u * (i * kPairs + pair);
    value = value + vec2(shared_value(at), shared_value(at + 1u));
  }
  return value;
}

fn begin_queries(tile: Tile, first: u32, end: u32, t: u32) {
  if (t < kQueries) {
    let position = row_position(min(row_of(tile, t), end - 1u));
    positions[t] = select(kNone, position, is_query(tile, t, first, end));
    let before = initial(min(head_of(tile, t), op.heads - 1u));
    all_largest[t] = before.largest;
    all_totals[t] = before.sum;
  }
}

fn end_chunk(begin: u32, t: u32) {
  if (t < kQueries && sees_chunk(positions[t], begin)) {
    let before = Softmax(all_largest[t], all_totals[t], vec2(0.0));
    let all = merge(before, Softmax(largest[t], totals[t], vec2(0.0)));
    all_largest[t] = all.largest;
    all_totals[t] = all.sum;
  }
}

// Works off rows [first, end) of the tile, which are of one session.
fn attend(tile: Tile, first: u32, end: u32, kv_head: u32, t: u32) {
  let key_group = t & 63u;
  let first_query = 4u * (t >> 6u);
  let value_queries = t / (kPairs / 4u) / kLanes;
  // Positions of a session's rows rise.
  let first_chunk = first_visible(row_position(first)) / kChunk;
  let last_position = row_position(end - 1u);
  begin_queries(tile, first, end, t);
//* each r of kMergeRounds
  var all_$r = vec2(0.0);  // of the thread's pair in each merge
//* end
  for (var chunk = first_chunk; chunk <= last_position / kChunk; chunk++) {
    let begin = chunk * kChunk;
    workgroupBarrier();
    if (t < 8u && begin + 32u * t <= last_position) {
      chunk_pages[t] = step[row_pages(first) + (begin >> 5u) + t];
    }
    workgroupBarrier();
    let at = begin + 4u * key_group;
    var scores = array<vec4<f32>, 4>();
    if (at <= last_position) {
      scores = scores_of(chunk_pages[key_group >> 3u], kv_head, at & 31u, first_query);
    }
    let places = vec4(at) + vec4(0u, 1u, 2u, 3u);
    var most = array<f32, 4>();
//* each q of kThreadQueries
    let is_seen_$q = sees(positions[first_query + $qu], places);
    let score_$q = select(vec4(kNoScore), finished(scores[$q]), is_seen_$q);
    most[$q] = max(max(score_$q.x, score_$q.y), max(score_$q.z, score_$q.w));
//* end
    find_largest(most, t);
    var own_weights = array<vec4<f32>, 4>();
//* each q of kThreadQueries
    own_weights[$q] =
      select(vec4(0.0), exp(score_$q - vec4(largest[first_query + $qu])), is_seen_$q);
//* end
    runs[t] = 0.0;
    let hidden = max(first_visible(row_position(first)), begin) - begin;
    let count = min(kChunk, last_position + 1u - begin);
    let values = values_of_chunk(own_weights, hidden, count, kv_head, t);
    workgroupBarrier();
    find_totals(t);
//* each r of kMergeRounds
    workgroupBarrier();
//* each q of kThreadQueries
    if ((4u * value_queries + $qu) / kMergeQueries == $ru) {
      leave_lanes((4u * value_queries + $qu) % kMergeQueries, t, values.x[$q], values.y[$q]);
    }
//* end
    workgroupBarrier();
    if (t < kMergeQueries * kPairs) {
      let q = kMergeQueries * $ru + t / kPairs;
      if (sees_chunk(positions[q], begin)) {
        let value = sum_of_lanes(t / kPairs, t % kPairs);
        all_$r = merge(Softmax(all_largest[q], all_totals[q], all_$r),
                       Softmax(largest[q], totals[q], value)).value;
      }
    }
//* end
    workgroupBarrier();
    end_chunk(begin, t);
  }
  workgroupBarrier();
  if (t < kMergeQueries * kPairs) {
//* each r of kMergeRounds
    {
      let q = kMergeQueries * $ru + t / kPairs;
      if (positions[q] != kNone) {
        write_head(row_of(tile, q), head_of(tile, q), t % kPairs,
                   Softmax(all_largest[q], all_totals[q], all_$r));
      }
    }
//* end
  }
}
