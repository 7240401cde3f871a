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
// The weights exp(score - largest) are in registers of the threads that made them. 64 positions of
// them at a time (a round) go to workgroup memory, where every thread finds those of its queries.
// At the end two queries at a time bring their lanes together there and are merged with the chunks
// before: 8 rounds of merging, in each of which thread t has query t / kPairs and pair t % kPairs.
const kQueries = 16u;
const kRoundKeys = 64u;  // whose weights lie in workgroup memory at once
const kLanes = 256u / kPairs;  // of values: part of the order of sums

var<workgroup> query: array<vec4<f32>, kQueries * kPairs / 2u>;  // [query][two pairs]
var<workgroup> shared_values: array<f32, kQueries * kRoundKeys>;  // weights, and whatever is summed
var<workgroup> runs: array<f32, kQueries * 16u>;
var<workgroup> largest: array<f32, kQueries>;
var<workgroup> totals: array<f32, kQueries>;
var<workgroup> positions: array<u32, kQueries>;  // kNone: no query of this session

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

// Writes the weights of a thread; `at` is the place of the first of its four queries.
fn leave_weights(at: u32, own: array<vec4<f32>, 4>) {
//* each q of kThreadQueries
  shared_values[at + $qu * kRoundKeys] = own[$q].x;
  shared_values[at + $qu * kRoundKeys + 1u] = own[$q].y;
  shared_values[at + $qu * kRoundKeys + 2u] = own[$q].z;
  shared_values[at + $qu * kRoundKeys + 3u] = own[$q].w;
//* end
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
  shared_values[(first + $qu) * kRoundKeys + (t & 63u)] = own[$q];
//* end
  workgroupBarrier();
  let at = 4u * t;
  runs[t] = max(max(shared_values[at], shared_values[at + 1u]),
                max(shared_values[at + 2u], shared_values[at + 3u]));
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
// runs of 16: a round of 64 positions is four of the runs.
fn sum_runs(round: u32, t: u32) {
  if (t < 4u * kQueries) {
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
      sum = sum + shared_values[16u * t + i];
    }
    runs[16u * (t >> 2u) + 4u * round + (t & 3u)] = sum;
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

// Works off rows [first, end) of the tile, which are of one session.
fn attend(tile: Tile, first: u32, end: u32, kv_head: u32, t: u32) {
  let key_group = t & 63u;
  let first_query = 4u * (t >> 6u);
  // With values a thread has four pairs, a lane of positions and four queries.
  let pair = 4u * (t % (kPairs / 4u));
  let lane = t / (kPairs / 4u) % kLanes;
  let value_queries = t / (kPairs / 4u) / kLanes;
  // Positions of a session's rows rise.
  let first_chunk = first_visible(row_position(first)) / kChunk;
  let last_position = row_position(end - 1u);
  if (t < kQueries) {
    let position = row_position(min(row_of(tile, t), end - 1u));
    positions[t] = select(kNone, position, is_query(tile, t, first, end));
  }
  var all: array<Softmax, 8>;  // of two queries a round, a pair a thread
//* each r of kMergeRounds
  all[$r] = initial(min(head_of(tile, 2u * $ru + t / kPairs), op.heads - 1u));
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
    var p = hidden / kLanes * kLanes + lane;
    // Set, because not every compiler empties a loop's variables in every turn.
    var value_x = array<vec4<f32>, 4>();
    var value_y = array<vec4<f32>, 4>();
    for (var round = 0u; round * kRoundKeys < count; round++) {
      workgroupBarrier();
      if (key_group >> 4u == round) {
        leave_weights(first_query * kRoundKeys + 4u * (key_group & 15u), own_weights);
      }
      workgroupBarrier();
      sum_runs(round, t);
      if (value_queries < 4u) {
        let first_weight = 4u * value_queries * kRoundKeys;
        let round_end = min(count, (round + 1u) * kRoundKeys);
        // Four loads on their way at a time.
        for (; p + 3u * kLanes < round_end; p += 4u * kLanes) {
//* each i of kUnroll
          let at_$i = p + $iu * kLanes;
          let value_$i = load_values(chunk_pages[at_$i >> 5u], kv_head, pair, at_$i & 31u);
//* end
//* each i of kUnroll
//* each q of kThreadQueries
          {
            let weight = vec4(shared_values[first_weight + (at_$i & 63u) + $qu * kRoundKeys]);
            value_x[$q] = fma(weight, value_$i.x, value_x[$q]);
            value_y[$q] = fma(weight, value_$i.y, value_y[$q]);
          }
//* end
//* end
        }
        for (; p < round_end; p += kLanes) {
          let value = load_values(chunk_pages[p >> 5u], kv_head, pair, p & 31u);
//* each q of kThreadQueries
          {
            let weight = vec4(shared_values[first_weight + (p & 63u) + $qu * kRoundKeys]);
            value_x[$q] = fma(weight, value.x, value_x[$q]);
            value_y[$q] = fma(weight, value.y, value_y[$q]);
          }
//* end
        }
      }
    }
    workgroupBarrier();
    find_totals(t);
//* each r of kMergeRounds
    workgroupBarrier();
    if (value_queries == $ru >> 1u) {
      leave_lanes(0u, lane, pair, value_x[2u * ($ru & 1u)], value_y[2u * ($ru & 1u)]);
      leave_lanes(1u, lane, pair, value_x[2u * ($ru & 1u) + 1u], value_y[2u * ($ru & 1u) + 1u]);
    }
    workgroupBarrier();
    if (t < 2u * kPairs) {
      let q = 2u * $ru + t / kPairs;
      if (sees_chunk(positions[q], begin)) {
        let value = sum_of_lanes(t / kPairs, t % kPairs);
        all[$r] = merge(all[$r], Softmax(largest[q], totals[q], value));
      }
    }
//* end
  }
  if (t < 2u * kPairs) {
//* each r of kMergeRounds
    {
      let q = 2u * $ru + t / kPairs;
      if (positions[q] != kNone) {
        write_head(row_of(tile, q), head_of(tile, q), t % kPairs, all[$r]);
      }
    }
//* end
  }
}

// [query of two][lane][pair], two values each
fn leave_lanes(q: u32, lane: u32, pair: u32, x: vec4<f32>, y: vec4<f32>) {
  let at = 512u * q + 2u * (lane * kPairs + pair);
  shared_values[at] = x.x;
  shared_values[at + 1u] = y.x;
  shared_values[at + 2u] = x.y;
  shared_values[at + 3u] = y.y;
  shared_values[at + 4u] = x.z;
  shared_values[at + 5u] = y.z;
  shared_values[at + 6u] = x.w;
  shared_values[at + 7u] = y.w;
}

fn sum_of_lanes(q: u32, pair: u32) -> vec2<f32> {
  var value = vec2(0.0);
  for (var i = 0u; i < kLanes; i++) {
    let at = 512u * q + 2u * (i * kPairs + pair);
    value = value + vec2(shared_values[at], shared_values[at + 1u]);
  }
  return value;
}
