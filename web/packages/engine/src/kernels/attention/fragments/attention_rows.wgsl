// Attention of several rows (attention_sessions.wgsl) with heads that attention_tiles.wgsl has no
// tiles for (wider than 128 columns, or not of multiples of 8): attention.wgsl for kQueries queries
// at a time, which share the keys and values that a workgroup reads, with the same bits. Thread t
// has position t of a chunk and makes the scores of all queries for it.
var<workgroup> query: array<vec2<f32>, kQueries * kMaxPairs>;  // [query][pair]
var<workgroup> weights: array<f32, kQueries * kChunk>;         // [query][position of the chunk]
var<workgroup> runs: array<f32, kQueries * 16u>;
var<workgroup> totals: array<f32, kQueries>;

const kLaneQueries = kQueries * kChunk / 512u;  // whose lanes fit into `weights`

fn sees(position: u32, at: u32) -> bool {
  return at <= position && at >= first_visible(position);
}

fn sees_chunk(position: u32, begin: u32) -> bool {
  return begin <= position && begin + kChunk > first_visible(position);
}

fn with_pair(q: u32, pair: u32, key: vec2<f32>, score: f32) -> f32 {
  let own = query[q * kMaxPairs + pair];
  return fma(own.y, key.y, fma(own.x, key.x, score));
}

fn finished(sum: f32) -> f32 {
  let score = sum * op.scale;
  if (op.softcap != 0.0) {
    return op.softcap * tanh_of(score / op.softcap);
  }
  return score;
}

// Brings the largest score of each query to `totals`; has barriers before and behind.
fn find_largest(t: u32) {
  workgroupBarrier();
  if (t < 16u * kQueries) {
    var most = weights[16u * t];
    for (var i = 1u; i < 16u; i++) {
      most = max(most, weights[16u * t + i]);
    }
    runs[t] = most;
  }
  workgroupBarrier();
  if (t < kQueries) {
    var most = runs[16u * t];
    for (var i = 1u; i < 16u; i++) {
      most = max(most, runs[16u * t + i]);
    }
    totals[t] = most;
  }
  workgroupBarrier();
}

// Brings the sums of weights there, in the order of sum_of_threads (reduce.wgsl).
fn find_sums(t: u32) {
  workgroupBarrier();
  if (t < 16u * kQueries) {
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
      sum = sum + weights[16u * t + i];
    }
    runs[t] = sum;
  }
  workgroupBarrier();
  if (t < kQueries) {
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
      sum = sum + runs[16u * t + i];
    }
    totals[t] = sum;
  }
  workgroupBarrier();
}

fn load_queries(tile: Tile, t: u32) {
  let pairs = kv_pairs();
  for (var i = t; i < kQueries * pairs; i += 256u) {
    let q = i / pairs;
    let column = 2u * (i % pairs);
    let row = min(row_of(tile, q), tile.row_end - 1u);
    let at = op.q_base + row * op.q_stride +
      (head_of(tile, q)) * op.head_columns + column;
    let second = select(0.0, act[at + 1u], column + 1u < op.head_columns);
    query[q * kMaxPairs + (i % pairs)] = vec2(act[at], second);
  }
}

// Works off rows [first, end) of the tile, which are of one session.
fn attend(tile: Tile, first: u32, end: u32, kv_head: u32, t: u32) {
  let pairs = kv_pairs();
  let value_count = value_pairs();
  let lane_count = 256u / value_count;
  let lane = t / value_count;
  let own_pair = t % value_count;
  // Positions of a session's rows rise.
  let first_chunk = first_visible(row_position(first)) / kChunk;
  let last_position = row_position(end - 1u);
//* each q of kQueries
  let is_live_$q = is_query(tile, $qu, first, end);
  let position_$q = row_position(min(row_of(tile, $qu), end - 1u));
  var all_$q = initial(head_of(tile, $qu));
//* end
  for (var chunk = first_chunk; chunk <= last_position / kChunk; chunk++) {
    let begin = chunk * kChunk;
    workgroupBarrier();
    if (t < 8u && begin + 32u * t <= last_position) {
      chunk_pages[t] = step[row_pages(first) + (begin >> 5u) + t];
    }
    workgroupBarrier();
    let at = begin + t;
    let page = chunk_pages[t >> 5u];
//* each q of kQueries
    var score_$q = 0.0;
//* end
    if (at <= last_position) {
      for (var pair = 0u; pair < pairs; pair++) {
        let key = load_key(page, kv_head, pair, at & 31u);
//* each q of kQueries
        score_$q = with_pair($qu, pair, key, score_$q);
//* end
      }
    }
//* each q of kQueries
    let is_seen_$q = is_live_$q && sees(position_$q, at);
    score_$q = select(kNoScore, finished(score_$q), is_seen_$q);
    weights[$qu * kChunk + t] = score_$q;
//* end
    find_largest(t);
//* each q of kQueries
    let largest_$q = totals[$q];
    weights[$qu * kChunk + t] = select(0.0, exp(score_$q - largest_$q), is_seen_$q);
//* end
    find_sums(t);
//* each q of kQueries
    let sum_$q = totals[$q];
    var value_$q = vec2(0.0);
//* end
    if (lane < lane_count) {
      let hidden = max(first_visible(row_position(first)), begin) - begin;
      let skipped = hidden / lane_count * lane_count;
      let count = min(kChunk, last_position + 1u - begin);
      for (var p = skipped + lane; p < count; p += lane_count) {
        let value = load_value(chunk_pages[p >> 5u], kv_head, own_pair, p & 31u);
//* each q of kQueries
        value_$q = fma(vec2(weights[$qu * kChunk + p]), value, value_$q);
//* end
      }
    }
//* each q of kQueries
    workgroupBarrier();
    lanes_to($qu % kLaneQueries, t, value_$q);
    workgroupBarrier();
    if (is_live_$q && sees_chunk(position_$q, begin)) {
      let value = sum_of_lanes($qu % kLaneQueries, t, value_count, lane_count);
      all_$q = merge(all_$q, Softmax(largest_$q, sum_$q, value));
    }
//* end
  }
//* each q of kQueries
  if (is_live_$q && t < value_count) {
    write_head(row_of(tile, $qu), head_of(tile, $qu), t, all_$q);
  }
//* end
}

fn lanes_to(place: u32, t: u32, value: vec2<f32>) {
  weights[512u * place + 2u * t] = value.x;
  weights[512u * place + 2u * t + 1u] = value.y;
}

fn sum_of_lanes(place: u32, t: u32, pairs: u32, lane_count: u32) -> vec2<f32> {
  var value = vec2(0.0);
  if (t < pairs) {
    for (var i = 0u; i < lane_count; i++) {
      let at = 512u * place + 2u * (i * pairs + t);
      value = value + vec2(weights[at], weights[at + 1u]);
    }
  }
  return value;
}
