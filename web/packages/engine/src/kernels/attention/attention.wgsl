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
// One head of one row is a workgroup, or two that share keys and values (fragments/heads_one.wgsl,
// heads_two.wgsl), which read them once. Thread t makes the score of position t of a chunk, all by
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
//
// A workgroup has too little to do to hide that memory is far away: it would wait for each load
// behind a barrier by itself. So loads stand as early as their places are known. What the row and
// its head need comes first, then page numbers and rotations, then the first keys, before the norm;
// the first values are asked for before the softmax.
var<workgroup> query: array<PairPerHead, kQueryPairs>;
var<workgroup> own_key: array<PairWords, kOwnPairs>;  // kFused: the row's own, as its page keeps it
var<workgroup> chunk_pages: array<u32, 8>;
var<workgroup> weights: array<PerHead, kChunk>;
var<workgroup> lanes: array<PairPerHead, 256>;

const kOwnPairs = select(1u, kHeadSpan / 2u, kFused);
const kQueryPairs = select(288u, kHeadSpan / 2u, kTogether == 2u);
// Heads that are made (fragments/head.wgsl): the queries, the key, the value.
const kOwnKey = kTogether;
const kOwnValue = kTogether + 1u;
const kIsLatent = kHeads == kTogether + 1u;  // the value is in the key
const kLanes = 256u / kValuePairs;
const kStride = kBatch * kLanes;  // positions between two batches of values
// Batches begin at whole lanes of a page, so that a value's page and slot are the first one's and a
// number that is known. Else (head columns of 80 make six lanes) each is looked up.
const kIsAligned = 32u % kLanes == 0u;

// What a chunk leaves of the workgroup's heads (fragments/attention_merge.wgsl).
struct Attended {
  largest: PerHead,
  sum: PerHead,
  value: PairPerHead,
}

// The positions of a chunk that the row sees, counted from the chunk's beginning.
struct Shown {
  first: u32,
  end: u32,
}

fn shown_of(chunk: u32, position: u32) -> Shown {
  let begin = chunk * kChunk;
  return Shown(max(first_visible(position), begin) - begin, min(kChunk, position + 1u - begin));
}

fn is_shown(shown: Shown, at: u32) -> bool {
  return at - shown.first < shown.end - shown.first;
}

// What a thread has on its way from memory at a time: pairs of a key, or one of several values.
struct Batch {
//* each i of kBatch
  pair_$i: PairWords,
//* end
}

// The page of position 256 chunk + t of the row's session, if that has come so far.
fn page_of(row: u32, chunk: u32, position: u32, t: u32) -> u32 {
  var page = 0u;
  if (chunk * kChunk + (t & 224u) <= position) {
    page = step[row_pages(row) + 8u * chunk + (t >> 5u)];
  }
  return page;
}

// Pairs [pair, pair + kBatch) of the key at a slot; kBatch divides the pairs of a key.
fn load_keys(page: u32, kv_head: u32, pair: u32, slot: u32) -> Batch {
  var batch = Batch();
  let at = key_at(page, kv_head, pair, slot);
//* each i of kBatch
  batch.pair_$i = load_words(at + 32u * $iu);
//* end
  return batch;
}

// A pair of a lane's values from position `base` of the chunk on; no bits for positions that are
// not among `shown`. All are loaded, as each load in a branch would be waited for there.
fn load_values(kv_head: u32, pair: u32, lane: u32, base: u32, shown: Shown) -> Batch {
  var batch = Batch();
  let first_page = base >> 5u;
  let first_slot = (base & 31u) + lane;
  let pages = array<u32, kBatchPages>(
//* each i of kBatchPages
    value_at(chunk_pages[min(first_page + $iu, 7u)], kv_head, first_slot, pair),
//* end
  );
//* each i of kBatch
  {
    let at = base + kLanes * $iu + lane;
    var words_at = pages[(kLanes * $iu) >> 5u] + ((kLanes * $iu) & 31u) * kValueStep;
    if (!kIsAligned) {
      words_at = value_at(chunk_pages[min(at >> 5u, 7u)], kv_head, at & 31u, pair);
    }
    batch.pair_$i = select(PairWords(), load_words(words_at), is_shown(shown, at));
  }
//* end
  return batch;
}

fn with_pair(pair: u32, key: vec2<f32>, score: PerHead) -> PerHead {
  let columns = query[pair];
  let first = fma(first_columns(columns), PerHead(key.x), score);
  return fma(second_columns(columns), PerHead(key.y), first);
}

// The score of the position whose first keys are `first`.
fn score_of(first: Batch, page: u32, kv_head: u32, slot: u32, is_own: bool) -> PerHead {
  var keys = first;
  var score = PerHead(0.0);
  for (var pair = 0u; pair < kv_pairs();) {
    if (kFused && is_own) {
//* each i of kBatch
      keys.pair_$i = own_key[pair + $iu];
//* end
    }
//* each i of kBatch
    score = with_pair(pair + $iu, pair_of(keys.pair_$i), score);
//* end
    pair += kBatch;
    if (pair < kv_pairs()) {
      keys = load_keys(page, kv_head, pair, slot);
    }
  }
  score = score * op.scale;
  if (op.softcap != 0.0) {
    score = capped(score);
  }
  return score;
}

// Attends to positions [256 chunk, 256 chunk + 256) of the row's session. Thread t gives the page
// of the chunk's position t, and its first keys if the row sees it. Every thread gets the largest
// score and the sum; thread t gets the value of pair t.
fn attend_chunk(kv_head: u32, chunk: u32, position: u32, t: u32, page: u32,
                keys: Batch) -> Attended {
  let shown = shown_of(chunk, position);
  let is_visible = is_shown(shown, t);
  if ((t & 31u) == 0u) {
    chunk_pages[t >> 5u] = page;
  }
  workgroupBarrier();
  var score = PerHead(-3.0e38);
  if (is_visible) {
    score = score_of(keys, page, kv_head, t & 31u, chunk * kChunk + t == position);
  }
  let lane = t / kValuePairs;
  let pair = t % kValuePairs;
  // The row's own value is still on its way to its page. Threads of no lane have no values.
  let is_last = kFused && chunk == position / kChunk;
  let end = select(shown.first, select(shown.end, shown.end - 1u, is_last), lane < kLanes);
  let stored = Shown(shown.first, end);
  var base = shown.first / kStride * kStride;
  var values = load_values(kv_head, pair, lane, base, stored);
  let largest = max_of_threads(t, score);
  var weight = PerHead(0.0);
  if (is_visible) {
    weight = exp(score - largest);
  }
  weights[t] = weight;
  let sum = sum_of_threads(t, weight);
  var value = PairPerHead(0.0);
  while (base < end) {
//* each i of kBatch
    {
      let weight = weights[min(base + kLanes * $iu + lane, kChunk - 1u)];
      let pairs = for_each_head(pair_of(values.pair_$i));
      value = fma(for_both_columns(weight), pairs, value);
    }
//* end
    base += kStride;
    if (base < end) {
      values = load_values(kv_head, pair, lane, base, stored);
    }
  }
  if (is_last && lane == (shown.end - 1u) % kLanes) {
    let weight = for_both_columns(weights[shown.end - 1u]);
    value = fma(weight, for_each_head(own_value(pair)), value);
  }
  lanes[t] = value;
  workgroupBarrier();
  value = PairPerHead(0.0);
  if (t < kValuePairs) {
    for (var i = 0u; i < kLanes; i++) {
      value = value + lanes[i * kValuePairs + t];
    }
  }
  workgroupBarrier();
  return Attended(largest, sum, value);
}

// The row's own value as its page keeps it: that of a latent key is its last columns.
fn own_value(pair: u32) -> vec2<f32> {
  if (kIsLatent) {
    return pair_of(own_key[kv_pairs() - kValuePairs + pair]);
  }
  return pair_of(words_of(made_pair(kOwnValue, pair)));
}

// One workgroup for each head of keys and values does this.
fn append(row: u32, kv_head: u32, position: u32, t: u32) {
  let page = step[row_pages(row) + (position >> 5u)];
  for (var pair = t; pair < kv_pairs(); pair += 256u) {
    store_key(page, kv_head, pair, position & 31u, made_pair(kOwnKey, pair));
    if (!kIsLatent) {
      store_value(page, kv_head, pair, position & 31u, made_pair(kOwnValue, pair));
    }
  }
}

// A pair of the query of head `head`, number `h` of the workgroup's: made, or as it is.
fn query_pair(row: u32, head: u32, h: u32, pair: u32) -> vec2<f32> {
  if (kFused) {
    return made_pair(h, pair);
  }
  let at = op.q_base + row * op.q_stride + head * op.head_columns + 2u * pair;
  return vec2(act[at], select(0.0, act[at + 1u], 2u * pair + 1u < op.head_columns));
}

// The queries of the workgroup's heads, and kFused: the row's own key.
fn leave_queries(row: u32, first_head: u32, t: u32) {
  for (var pair = t; pair < kv_pairs(); pair += 256u) {
    var both = for_each_head(query_pair(row, first_head, 0u, pair));
    if (kTogether == 2u) {
      both = with_second_head(both, query_pair(row, first_head + 1u, 1u, pair));
    }
    query[pair] = both;
    if (kFused) {
      own_key[pair] = words_of(made_pair(kOwnKey, pair));
    }
  }
}

fn leave_chunk(row: u32, head: u32, chunk: u32, t: u32, part: Softmax) {
  let at = split_at(row, head, chunk);
  if (t == 0u) {
    act[at] = part.largest;
    act[at + 1u] = part.sum;
  }
  if (t < kValuePairs) {
    act[at + kSplitHeader + 2u * t] = part.value.x;
    act[at + kSplitHeader + 2u * t + 1u] = part.value.y;
  }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let first_head = kTogether * workgroup.x;
  let row = workgroup.y;
  let kv_head = first_head / kSharing;
  let h = t >> 6u;
  let made = min(h, kHeads - 1u);
  let part = op.parts[max(made, kTogether - 1u) - (kTogether - 1u)];
  let part_head = select(kv_head, first_head + made, made < kTogether);
  var ahead = Ahead();
  if (kFused) {
    ahead = loaded_ahead(part, row, part_head, t & 63u);
  }
  let position = row_position(row);
  let last_chunk = position / kChunk;
  var chunk = first_visible(position) / kChunk;
  if (kSplit) {
    if (workgroup.z < chunk || workgroup.z > last_chunk) {
      return;
    }
    chunk = workgroup.z;
  }
  var page = page_of(row, chunk, position, t);
  var keys = Batch();
  if (is_shown(shown_of(chunk, position), t)) {
    keys = load_keys(page, kv_head, 0u, t & 31u);
  }
  if (kFused) {
    make_head(part, row, part_head, h, t & 63u, ahead);
  }
  leave_queries(row, first_head, t);
  let is_first = first_head % kSharing == 0u;
  if (kFused && is_first && (!kSplit || chunk == last_chunk)) {
    append(row, kv_head, position, t);
  }
  if (kSplit) {
    let own = attend_chunk(kv_head, chunk, position, t, page, keys);
//* each h of kTogether
    leave_chunk(row, first_head + $hu, chunk, t, softmax_of(own, $hu));
//* end
    return;
  }
//* each h of kTogether
  var all_$h = initial(first_head + $hu);
//* end
  for (; chunk <= last_chunk; chunk++) {
    let own = attend_chunk(kv_head, chunk, position, t, page, keys);
//* each h of kTogether
    all_$h = merge(all_$h, softmax_of(own, $hu));
//* end
    if (chunk < last_chunk) {
      page = page_of(row, chunk + 1u, position, t);
      if (is_shown(shown_of(chunk + 1u, position), t)) {
        keys = load_keys(page, kv_head, 0u, t & 31u);
      }
    }
  }
  if (t < kValuePairs) {
//* each h of kTogether
    write_head(row, first_head + $hu, t, all_$h);
//* end
  }
}
