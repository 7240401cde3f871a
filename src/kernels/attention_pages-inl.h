// Attention of one row, from pages as they lie: what decoding does. Included once per target,
// inside Highway's dispatch.
//
// A page keeps keys as [column][position] and values as [position][column]: lanes are 32 positions
// in the scores, and columns in the sum of values. Memory is read front to back once for the heads
// that share it. Pages lie apart, so that the processor does not foresee the next one: each line of
// a page asks for the same line of the next.
#if defined(WEFT_KERNELS_ATTENTION_PAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_ATTENTION_PAGES_INL_H_
#undef WEFT_KERNELS_ATTENTION_PAGES_INL_H_
#else
#define WEFT_KERNELS_ATTENTION_PAGES_INL_H_
#endif

#include "kernels/attention_rule-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Heads whose accumulators fit the registers together.
inline constexpr size_t kMaxHeads = kWidth == 16 ? 4 : 2;
static_assert(kPagePositions == 2 * kLanes);

// Positions [first, end) of a chunk that a row sees, counted from the chunk's beginning: none where
// end <= first.
struct Visible {
  size_t first = 0, end = 0;
};
HWY_INLINE Visible VisibleOf(const AttentionArgs& args, uint32_t position, size_t chunk) {
  const size_t begin = chunk * kChunkPositions;
  return {std::max<size_t>(args.FirstVisible(position), begin) - begin,
          std::clamp<size_t>(position + 1, begin, begin + kChunkPositions) - begin};
}

// One row and the query heads of one kv head from `head` on.
struct HeadGroup {
  size_t row = 0;
  size_t kv_head = 0;
  size_t head = 0;
};

HWY_INLINE void PrefetchLike(const void* at, const void* here, const void* next) {
  // As a number: the address may lie outside the object.
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(at) -
                                                   reinterpret_cast<uintptr_t>(here) +
                                                   reinterpret_cast<uintptr_t>(next)));
}

// The scores of one page's 32 positions for each head, to scores + head * kChunkPositions.
template <typename Element, size_t kHeads>
HWY_INLINE void ScorePage(const AttentionArgs& args, const float* q, const Element* keys,
                          const Element* next, float* scores) {
  const size_t columns = args.kv.head_columns;
  Lanes sum[kHeads][2];
  HWY_UNROLL(16)
  for (size_t h = 0; h < kHeads; ++h) sum[h][0] = sum[h][1] = Splat(0);
  for (size_t d = 0; d < columns; ++d) {
    const auto* key = reinterpret_cast<const Stored<Element>*>(keys + d * kPagePositions);
    PrefetchLike(key, keys, next);
    const Lanes low = LoadWiden(key);
    const Lanes high = LoadWiden(key + kLanes);
    HWY_UNROLL(16)
    for (size_t h = 0; h < kHeads; ++h) {
      const Lanes x = Splat(q[h * columns + d]);
      sum[h][0] = MulAdd(x, low, sum[h][0]);
      sum[h][1] = MulAdd(x, high, sum[h][1]);
    }
  }
  HWY_UNROLL(16)
  for (size_t h = 0; h < kHeads; ++h) {
    StoreScores(args, sum[h][0], scores + h * kChunkPositions);
    StoreScores(args, sum[h][1], scores + h * kChunkPositions + kLanes);
  }
}

// Where the pages of a chunk lie.
template <typename Element>
struct ChunkPages {
  const AttentionArgs& args;
  const AttentionRow& row;
  size_t kv_head;
  size_t chunk;
  size_t end_page;  // one past the last page of the row

  const Element* Keys(size_t page) const {
    return row.Page<Element>(page) + args.kv.KeyIndex(kv_head, 0, 0);
  }
  const Element* Values(size_t page) const {
    return row.Page<Element>(page) + args.kv.ValueIndex(kv_head, 0, 0);
  }
};

// Columns [d, d + 16 kVectors) of o of each head, or [d, d + tail) when tail > 0 (kVectors is 1
// then).
template <typename Element, size_t kHeads, size_t kVectors>
HWY_INLINE void SumValues(const ChunkPages<Element>& pages, const Visible& visible,
                          const float* weights, AttentionState* states, size_t d, size_t tail) {
  const size_t columns = pages.args.kv.head_columns;
  Lanes out[kHeads][kVectors];
  HWY_UNROLL(16)
  for (size_t h = 0; h < kHeads; ++h) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kVectors; ++i) out[h][i] = Splat(0);
  }
  for (size_t t = visible.first; t < visible.end;) {
    const size_t page = (pages.chunk * kChunkPositions + t) / kPagePositions;
    const size_t slot = t % kPagePositions;
    const size_t end = std::min(visible.end, t - slot + kPagePositions);
    const Element* here = pages.Values(page);
    const bool is_last = (t - slot + kPagePositions) >= visible.end;
    const Element* next = !is_last                    ? pages.Values(page + 1)
                          : page + 1 < pages.end_page ? pages.Keys(page + 1)
                                                      : here;
    const Element* values = here + slot * columns + d;
    for (; t < end; ++t, values += columns) {
      PrefetchLike(values, here, next);
      if (kVectors > 1) PrefetchLike(values + 2 * kLanes, here, next);
      Lanes v[kVectors];
      if (tail > 0) {
        Stored<Element> padded[kLanes] = {};
        std::memcpy(padded, values, tail * sizeof(Element));
        v[0] = LoadWiden(padded);
      } else {
        HWY_UNROLL(16)
        for (size_t i = 0; i < kVectors; ++i)
          v[i] = LoadWiden(reinterpret_cast<const Stored<Element>*>(values + i * kLanes));
      }
      HWY_UNROLL(16)
      for (size_t h = 0; h < kHeads; ++h) {
        const Lanes w = Splat(weights[h * kChunkPositions + t]);
        HWY_UNROLL(16)
        for (size_t i = 0; i < kVectors; ++i) out[h][i] = MulAdd(w, v[i], out[h][i]);
      }
    }
  }
  HWY_UNROLL(16)
  for (size_t h = 0; h < kHeads; ++h) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kVectors; ++i)
      StoreLanes(out[h][i], states[h].values() + d + i * kLanes);
  }
}

// States of kHeads heads of a row and one chunk. `scores` is room for kHeads times a chunk.
template <typename Element, size_t kHeads>
HWY_NOINLINE void AttendPages(const AttentionArgs& args, const HeadGroup& group, size_t chunk,
                              float* scores, AttentionState* states) {
  const AttentionRow& row = args.kv_rows[group.row];
  const Visible visible = VisibleOf(args, row.position, chunk);
  const ChunkPages<Element> pages = {args, row, group.kv_head, chunk,
                                     row.position / kPagePositions + 1};
  const float* q = args.q.Row(group.row).data() + group.head * args.kv.head_columns;
  const size_t first_page = visible.first / kPagePositions;
  const size_t end_page = (visible.end + kPagePositions - 1) / kPagePositions;
  const size_t chunk_page = chunk * kChunkPositions / kPagePositions;
  for (size_t page = first_page; page < end_page; ++page) {
    const Element* next = page + 1 < end_page ? pages.Keys(chunk_page + page + 1)
                                              : pages.Values(chunk_page + first_page);
    ScorePage<Element, kHeads>(args, q, pages.Keys(chunk_page + page), next,
                               scores + page * kPagePositions);
  }
  HWY_UNROLL(16)
  for (size_t h = 0; h < kHeads; ++h)
    Exponentiate(scores + h * kChunkPositions, visible.first, visible.end, states[h]);
  const size_t values = args.kv.out_columns();
  size_t d = 0;
  for (; d + 4 * kLanes <= values; d += 4 * kLanes)
    SumValues<Element, kHeads, 4>(pages, visible, scores, states, d, 0);
  for (; d + kLanes <= values; d += kLanes)
    SumValues<Element, kHeads, 1>(pages, visible, scores, states, d, 0);
  if (d < values) SumValues<Element, kHeads, 1>(pages, visible, scores, states, d, values - d);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
