// Causal grouped-query attention over paged keys and values that qk_norm_rope.wgsl appended. One
// head of one row a workgroup; with kSplit one chunk of it, whose partial results
// attention_combine.wgsl merges. Chunk boundaries are absolute positions, so that a row's result is
// the same in a prompt and in decoding.
var<workgroup> query: array<f32, 512>;
var<workgroup> weights: array<f32, kChunk>;
var<workgroup> lanes: array<vec2<f32>, 256>;

fn score_of(row: u32, kv_head: u32, position: u32) -> f32 {
  let page = step[row_pages(row) + (position >> 5u)];
  var score = 0.0;
  for (var pair = 0u; pair < kv_pairs(); pair++) {
    let key = load_key(page, kv_head, pair, position & 31u);
    score = fma(query[2u * pair], key.x, score);
    score = fma(query[2u * pair + 1u], key.y, score);
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
    for (var p = skipped + lane; p < count; p += lane_count) {
      if (begin + p >= first) {
        let page = step[row_pages(row) + ((begin + p) >> 5u)];
        value = fma(vec2(weights[p]), load_value(page, kv_head, pair, p & 31u), value);
      }
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

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = workgroup.x;
  let row = workgroup.y;
  let kv_head = head / (op.heads / op.kv_heads);
  for (var d = t; d < 2u * kv_pairs(); d += 256u) {
    var value = 0.0;
    if (d < op.head_columns) {
      value = act[op.q_base + row * op.q_stride + head * op.head_columns + d];
    }
    query[d] = value;
  }
  workgroupBarrier();
  let position = row_position(row);
  let first_chunk = first_visible(position) / kChunk;
  let last_chunk = position / kChunk;
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
