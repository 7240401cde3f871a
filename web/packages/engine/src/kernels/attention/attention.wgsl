// Causal grouped-query attention of a row over the paged keys and values of its session:
//
//   score[h, p] = cap(scale * sum over d of query[h, d] * key[p, g, d])
//                 with g = h / (heads / kv_heads), the head of keys and values
//   out[h, d] = sum over p of exp(score[h, p]) * value[p, g, d] / sum over p of exp(score[h, p])
//
// for the positions p <= the row's own that its window shows. cap(s) is s, or softcap tanh(s /
// softcap). The exponentials are taken of differences to the largest score of a chunk of 256
// positions; how chunks are put together stands in fragments/attention_merge.wgsl.
//
// One head of one row is a workgroup. Thread t makes the score of position t of a chunk, all by
// itself and along rising columns. Then threads stand along the columns: with 64 pairs of columns,
// thread t has pair t % 64 and lane t / 64 of four, takes the positions p with p % 4 equal to its
// lane in rising order, and the four lanes are added in rising order. This is part of the identity
// rule (common.wgsl); attention_rows.wgsl and attention_tiles.wgsl give the same bits.
//
// The keys and values are those that qk_norm_rope.wgsl appended. With kFused, which is for rows
// that are the only ones of their sessions, the row's query, key and value are normalised, rotated
// and appended here, which saves a dispatch: every head reads the row's own key and value from
// workgroup memory, because the page is written by another workgroup of the same dispatch. With
// kSplit a workgroup has one chunk, and attention_combine.wgsl merges. Chunks begin at absolute
// positions, so that a row's result is the same in a prompt and in decoding.
var<workgroup> query: array<f32, 576>;
var<workgroup> own_key: array<vec2<f32>, kOwnPairs>;  // kFused: the row's own, as its page keeps it
var<workgroup> chunk_pages: array<u32, 8>;
var<workgroup> weights: array<f32, kChunk>;
var<workgroup> lanes: array<vec2<f32>, 256>;

const kOwnPairs = select(1u, kHeadSpan / 2u, kFused);

fn with_pair(pair: u32, key: vec2<f32>, score: f32) -> f32 {
  return fma(query[2u * pair + 1u], key.y, fma(query[2u * pair], key.x, score));
}

// The position is counted from the beginning of the chunk.
fn value_of(kv_head: u32, pair: u32, at: u32) -> vec2<f32> {
  return load_value(chunk_pages[at >> 5u], kv_head, pair, at & 31u);
}

fn key_of(page: u32, kv_head: u32, pair: u32, slot: u32, is_own: bool) -> vec2<f32> {
  let stored = load_key(page, kv_head, pair, slot);
  if (!kFused) {
    return stored;
  }
  return select(stored, own_key[pair], is_own);
}

fn score_of(row: u32, kv_head: u32, position: u32) -> f32 {
  let page = chunk_pages[(position % kChunk) >> 5u];
  let slot = position & 31u;
  let pairs = kv_pairs();
  let is_own = kFused && position == row_position(row);
  var score = 0.0;
  var pair = 0u;
  // So many loads are on their way at a time.
  for (; pair + kBatch <= pairs; pair += kBatch) {
//* each i of kBatch
    let key_$i = key_of(page, kv_head, pair + $iu, slot, is_own);
//* end
//* each i of kBatch
    score = with_pair(pair + $iu, key_$i, score);
//* end
  }
  for (; pair < pairs; pair++) {
    score = with_pair(pair, key_of(page, kv_head, pair, slot, is_own), score);
  }
  score = score * op.scale;
  if (op.softcap != 0.0) {
    score = op.softcap * tanh_of(score / op.softcap);
  }
  return score;
}

// Attends to positions [256 chunk, 256 chunk + 256) of the row's session. Every thread gets the
// largest score and the sum; thread t gets the value of pair t.
fn attend_chunk(row: u32, kv_head: u32, chunk: u32, t: u32) -> Softmax {
  let begin = chunk * kChunk;
  let position = row_position(row);
  let first = first_visible(position);
  let count = min(kChunk, position + 1u - begin);
  if (t < 8u && begin + 32u * t <= position) {
    chunk_pages[t] = step[row_pages(row) + (begin >> 5u) + t];
  }
  workgroupBarrier();
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
  let pairs = value_pairs();
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
    for (; p + (kBatch - 1u) * lane_count < stored; p += kBatch * lane_count) {
//* each i of kBatch
      let value_$i = value_of(kv_head, pair, p + $iu * lane_count);
//* end
//* each i of kBatch
      value = fma(vec2(weights[p + $iu * lane_count]), value_$i, value);
//* end
    }
    for (; p < stored; p += lane_count) {
      value = fma(vec2(weights[p]), value_of(kv_head, pair, p), value);
    }
    if (is_last && p < count) {
      value = fma(vec2(weights[p]), own_value(pair), value);
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

// The row's own value as its page keeps it: that of a latent key is its last columns.
fn own_value(pair: u32) -> vec2<f32> {
  if (kHeads == 2u) {
    return own_key[kv_pairs() - value_pairs() + pair];
  }
  return kept(made_pair(2u, pair));
}

// One workgroup for each head of keys and values does this.
fn append(row: u32, kv_head: u32, position: u32, t: u32) {
  let page = step[row_pages(row) + (position >> 5u)];
  for (var pair = t; pair < kv_pairs(); pair += 256u) {
    store_key(page, kv_head, pair, position & 31u, made_pair(1u, pair));
    if (kHeads == 3u) {
      store_value(page, kv_head, pair, position & 31u, made_pair(2u, pair));
    }
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = workgroup.x;
  let row = workgroup.y;
  let kv_head = head / (op.heads / op.kv_heads);
  if (kFused) {
    let h = t >> 6u;
    make_head(op.parts[min(h, kHeads - 1u)], row, select(kv_head, head, h == 0u), h, t & 63u);
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
    if (kFused && d < kv_pairs()) {
      own_key[d] = kept(made_pair(1u, d));
    }
  }
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
    if (t < value_pairs()) {
      act[at + kSplitHeader + 2u * t] = part.value.x;
      act[at + kSplitHeader + 2u * t + 1u] = part.value.y;
    }
    return;
  }
  var all = initial(head);
  for (var chunk = first_chunk; chunk <= last_chunk; chunk++) {
    all = merge(all, attend_chunk(row, kv_head, chunk, t));
  }
  if (t < value_pairs()) {
    write_head(row, head, t, all);
  }
}
