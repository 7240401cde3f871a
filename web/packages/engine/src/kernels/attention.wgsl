// Causal grouped-query attention over paged keys and values that qk_norm_rope.wgsl appended; with
// kFused, which is for steps of a single row, the row's query, key and value are normalised,
// rotated and appended here, with the same bits. One head of one row a workgroup; with kSplit one
// chunk of it, whose partial results attention_combine.wgsl merges. Chunk boundaries are absolute
// positions, so that a row's result is the same in a prompt and in decoding.
var<workgroup> query: array<f32, 512>;
var<workgroup> weights: array<f32, kChunk>;
var<workgroup> lanes: array<vec2<f32>, 256>;

fn with_pair(pair: u32, key: vec2<f32>, score: f32) -> f32 {
  return fma(query[2u * pair + 1u], key.y, fma(query[2u * pair], key.x, score));
}

fn value_of(row: u32, kv_head: u32, pair: u32, position: u32) -> vec2<f32> {
  let page = step[row_pages(row) + (position >> 5u)];
  return load_value(page, kv_head, pair, position & 31u);
}

fn score_of(row: u32, kv_head: u32, position: u32) -> f32 {
  let page = step[row_pages(row) + (position >> 5u)];
  let slot = position & 31u;
  let pairs = kv_pairs();
  var score = 0.0;
  var pair = 0u;
  if (kFused && position == row_position(row)) {
    for (; pair < pairs; pair++) {
      score = with_pair(pair, kept(made_pair(1u, pair)), score);
    }
  }
  // Eight loads on their way at a time.
  for (; pair + 8u <= pairs; pair += 8u) {
    let a = load_key(page, kv_head, pair, slot);
    let b = load_key(page, kv_head, pair + 1u, slot);
    let c = load_key(page, kv_head, pair + 2u, slot);
    let d = load_key(page, kv_head, pair + 3u, slot);
    let e = load_key(page, kv_head, pair + 4u, slot);
    let f = load_key(page, kv_head, pair + 5u, slot);
    let g = load_key(page, kv_head, pair + 6u, slot);
    let h = load_key(page, kv_head, pair + 7u, slot);
    score = with_pair(pair + 1u, b, with_pair(pair, a, score));
    score = with_pair(pair + 3u, d, with_pair(pair + 2u, c, score));
    score = with_pair(pair + 5u, f, with_pair(pair + 4u, e, score));
    score = with_pair(pair + 7u, h, with_pair(pair + 6u, g, score));
  }
  for (; pair < pairs; pair++) {
    score = with_pair(pair, load_key(page, kv_head, pair, slot), score);
  }
  score = score * op.scale;
  if (op.softcap != 0.0) {
    score = op.softcap * tanh_of(score / op.softcap);
  }
  return score;
}

// Positions [256 chunk, 256 chunk + 256) of the row's session; `value` is that of pair t.
fn attend_chunk(row: u32, kv_head: u32, chunk: u32, t: u32) -> Softmax {
  let begin = chunk * kChunk;
  let position = row_position(row);
  let first = first_visible(position);
  let count = min(kChunk, position + 1u - begin);
  let is_visible = t < count && begin + t >= first;
  var score = -3.0e38;
  if (is_visible) {
    score = score_of(row, kv_head, begin + t);
  }
  let largest = max_of_threads(t, score);
  var weight = 0.0;
  if (is_visible) {
    weight = exp(score - largest);
  }
  weights[t] = weight;
  let sum = sum_of_threads(t, weight);
  let pairs = kv_pairs();
  let lane_count = 256u / pairs;
  let lane = t / pairs;
  let pair = t % pairs;
  var value = vec2(0.0);
  if (lane < lane_count) {
    let skipped = (max(first, begin) - begin) / lane_count * lane_count;
    var p = skipped + lane;
    if (begin + p < first) {
      p += lane_count;
    }
    // The row's own value is still on its way to its page.
    let is_last = kFused && begin + count == position + 1u;
    let stored = select(count, count - 1u, is_last);
    for (; p + 7u * lane_count < stored; p += 8u * lane_count) {
      let at = begin + p;
      let a = value_of(row, kv_head, pair, at);
      let b = value_of(row, kv_head, pair, at + lane_count);
      let c = value_of(row, kv_head, pair, at + 2u * lane_count);
      let d = value_of(row, kv_head, pair, at + 3u * lane_count);
      let e = value_of(row, kv_head, pair, at + 4u * lane_count);
      let f = value_of(row, kv_head, pair, at + 5u * lane_count);
      let g = value_of(row, kv_head, pair, at + 6u * lane_count);
      let h = value_of(row, kv_head, pair, at + 7u * lane_count);
      value = fma(vec2(weights[p]), a, value);
      value = fma(vec2(weights[p + lane_count]), b, value);
      value = fma(vec2(weights[p + 2u * lane_count]), c, value);
      value = fma(vec2(weights[p + 3u * lane_count]), d, value);
      value = fma(vec2(weights[p + 4u * lane_count]), e, value);
      value = fma(vec2(weights[p + 5u * lane_count]), f, value);
      value = fma(vec2(weights[p + 6u * lane_count]), g, value);
      value = fma(vec2(weights[p + 7u * lane_count]), h, value);
    }
    for (; p < stored; p += lane_count) {
      value = fma(vec2(weights[p]), value_of(row, kv_head, pair, begin + p), value);
    }
    if (is_last && p < count) {
      value = fma(vec2(weights[p]), kept(made_pair(2u, pair)), value);
    }
  }
  lanes[t] = value;
  workgroupBarrier();
  value = vec2(0.0);
  if (t < pairs) {
    for (var i = 0u; i < lane_count; i++) {
      value = value + lanes[i * pairs + t];
    }
  }
  workgroupBarrier();
  return Softmax(largest, sum, value);
}

// By one workgroup for each head of keys and values.
fn append(row: u32, kv_head: u32, position: u32, t: u32) {
  let page = step[row_pages(row) + (position >> 5u)];
  for (var pair = t; pair < kv_pairs(); pair += 256u) {
    store_key(page, kv_head, pair, position & 31u, made_pair(1u, pair));
    store_value(page, kv_head, pair, position & 31u, made_pair(2u, pair));
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = workgroup.x;
  let row = workgroup.y;
  let kv_head = head / (op.heads / op.kv_heads);
  if (kFused) {
    let h = t >> 6u;
    make_head(op.parts[min(h, 2u)], row, select(kv_head, head, h == 0u), h, t & 63u);
  }
  for (var d = t; d < 2u * kv_pairs(); d += 256u) {
    var value = 0.0;
    if (d < op.head_columns) {
      if (kFused) {
        value = head_values[d];
      } else {
        value = act[op.q_base + row * op.q_stride + head * op.head_columns + d];
      }
    }
    query[d] = value;
  }
  workgroupBarrier();
  let position = row_position(row);
  let first_chunk = first_visible(position) / kChunk;
  let last_chunk = position / kChunk;
  let is_first = head % (op.heads / op.kv_heads) == 0u;
  if (kFused && is_first && workgroup.z == select(0u, last_chunk, kSplit)) {
    append(row, kv_head, position, t);
  }
  if (kSplit) {
    if (workgroup.z < first_chunk || workgroup.z > last_chunk) {
      return;
    }
    let part = attend_chunk(row, kv_head, workgroup.z, t);
    let at = split_at(row, head, workgroup.z);
    if (t == 0u) {
      act[at] = part.largest;
      act[at + 1u] = part.sum;
    }
    if (t < kv_pairs()) {
      act[at + kSplitHeader + 2u * t] = part.value.x;
      act[at + kSplitHeader + 2u * t + 1u] = part.value.y;
    }
    return;
  }
  var all = initial(head);
  for (var chunk = first_chunk; chunk <= last_chunk; chunk++) {
    all = merge(all, attend_chunk(row, kv_head, chunk, t));
  }
  if (t < kv_pairs()) {
    write_head(row, head, t, all);
  }
}
