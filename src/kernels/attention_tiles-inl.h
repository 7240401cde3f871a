// Attention of many pairs of a row and a head that read the same keys: what prompts do, and latent
// attention always. A chunk's keys and values are widened to f32 once for all pairs, and a tile of
// kTilePairs pairs shares each load. Included once per target, inside Highway's dispatch.
#if defined(WEFT_KERNELS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_ATTENTION_TILES_INL_H_
#undef WEFT_KERNELS_ATTENTION_TILES_INL_H_
#else
#define WEFT_KERNELS_ATTENTION_TILES_INL_H_
#endif

#include "kernels/attention_pages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Registers decide: pairs times 16-lane groups of sums, 24 of 32 registers or 8 of 16.
inline constexpr size_t kTilePairs = kWidth == 16 ? 6 : kWidth == 8 ? 2 : 1;
inline constexpr size_t kTileLanes = kWidth == 16 ? 4 : 2;
inline constexpr size_t kStrip = kTileLanes * kLanes;  // positions, or columns, of a tile
static_assert(kTilePairs <= kMostTileOfPairs && kChunkPositions % kStrip == 0);

// A chunk as f32, of one kv head.
struct WideChunk {
  float* keys;    // [positions / kStrip][column][kStrip]
  float* values;  // [position][whole lanes of columns]
  size_t columns, value_columns, value_stride;

  float* Key(size_t t, size_t d) const {
    return keys + (t / kStrip * columns + d) * kStrip + t % kStrip;
  }
  float* Value(size_t t) const { return values + t * value_stride; }
};

// One pair: its query, what it sees of the chunk, and where its sums go.
struct TilePair {
  const float* q = nullptr;
  Visible visible = {};
  float* scores = nullptr;  // [kChunkPositions]
  AttentionState state;
};

// `count` stored values as f32, up to whole lanes.
template <typename Element>
HWY_INLINE void WidenRow(const Element* from, size_t count, float* to) {
  ForLanes(count, [&](size_t d, size_t n) HWY_ATTR {
    Stored<Element> padded[kLanes] = {};
    if (n < kLanes) std::memcpy(padded, from + d, n * sizeof(Element));
    StoreLanes(LoadWiden(n < kLanes ? padded : reinterpret_cast<const Stored<Element>*>(from + d)),
               to + d);
  });
}

// Keys of `count` positions from `t` on, at most sixteen, which lie position by position.
template <typename Element>
HWY_INLINE void TurnKeys(const Element* keys, size_t t, size_t count, const WideChunk& wide) {
  alignas(64) float block[kLanes][kLanes] = {};
  ForLanes(wide.columns, [&](size_t d, size_t n) HWY_ATTR {
    for (size_t i = 0; i < count; ++i) WidenRow(keys + i * wide.columns + d, n, block[i]);
    float* to = wide.Key(t, d);
    for (size_t j = 0; j < n; ++j, to += kStrip) {
      HWY_UNROLL(16)
      for (size_t i = 0; i < kLanes; ++i) to[i] = block[i][j];
    }
  });
}

// Positions of whole pages that hold [first, end) of the chunk. Keys that hold their values lie
// position by position: their columns are laid apart, and values are widened with them.
template <typename Element>
HWY_NOINLINE void WidenChunk(const ChunkPages<Element>& pages, Visible seen,
                             const WideChunk& wide) {
  const KvShape& kv = pages.args.kv;
  for (size_t t = seen.first / kPagePositions * kPagePositions; t < seen.end; t += kPagePositions) {
    const size_t page = (pages.chunk * kChunkPositions + t) / kPagePositions;
    const size_t count = std::min(kPagePositions, seen.end - t);
    const Element* keys = pages.Keys(page);
    if (!kv.values_in_keys()) {
      for (size_t d = 0; d < wide.columns; ++d)
        WidenRow(keys + d * kPagePositions, kPagePositions, wide.Key(t, d));
      for (size_t i = 0; i < count; ++i)
        WidenRow(pages.Values(page) + i * kv.head_columns, wide.value_columns, wide.Value(t + i));
      continue;
    }
    for (size_t i = 0; i < count; i += kLanes)
      TurnKeys(keys + i * wide.columns, t + i, std::min(kLanes, count - i), wide);
    for (size_t i = 0; i < count; ++i)
      WidenRow(keys + (i + 1) * wide.columns - wide.value_columns, wide.value_columns,
               wide.Value(t + i));
  }
}

// Scores of the strip at position `t`.
template <size_t kPairs>
HWY_INLINE void ScoreStrip(const AttentionArgs& args, const WideChunk& wide, const TilePair* pairs,
                           size_t t) {
  Lanes sum[kPairs][kTileLanes];
  HWY_UNROLL(16)
  for (size_t p = 0; p < kPairs; ++p) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kTileLanes; ++i) sum[p][i] = Splat(0);
  }
  const float* key = wide.Key(t, 0);
  for (size_t d = 0; d < wide.columns; ++d, key += kStrip) {
    Lanes k[kTileLanes];
    HWY_UNROLL(16)
    for (size_t i = 0; i < kTileLanes; ++i) k[i] = LoadLanes(key + i * kLanes);
    HWY_UNROLL(16)
    for (size_t p = 0; p < kPairs; ++p) {
      const Lanes x = Splat(pairs[p].q[d]);
      HWY_UNROLL(16)
      for (size_t i = 0; i < kTileLanes; ++i) sum[p][i] = MulAdd(x, k[i], sum[p][i]);
    }
  }
  HWY_UNROLL(16)
  for (size_t p = 0; p < kPairs; ++p) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kTileLanes; ++i)
      StoreScores(args, sum[p][i], pairs[p].scores + t + i * kLanes);
  }
}

// Adds positions [first, end) to columns [d, d + 16 kVectors) of o.
template <size_t kPairs, size_t kVectors>
HWY_INLINE void AddValues(const WideChunk& wide, const TilePair* pairs, size_t d, size_t first,
                          size_t end) {
  Lanes out[kPairs][kVectors];
  HWY_UNROLL(16)
  for (size_t p = 0; p < kPairs; ++p) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kVectors; ++i)
      out[p][i] = LoadLanes(pairs[p].state.values() + d + i * kLanes);
  }
  for (size_t t = first; t < end; ++t) {
    const float* value = wide.Value(t) + d;
    Lanes v[kVectors];
    HWY_UNROLL(16)
    for (size_t i = 0; i < kVectors; ++i) v[i] = LoadLanes(value + i * kLanes);
    HWY_UNROLL(16)
    for (size_t p = 0; p < kPairs; ++p) {
      const Lanes w = Splat(pairs[p].scores[t]);
      HWY_UNROLL(16)
      for (size_t i = 0; i < kVectors; ++i) out[p][i] = MulAdd(w, v[i], out[p][i]);
    }
  }
  HWY_UNROLL(16)
  for (size_t p = 0; p < kPairs; ++p) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kVectors; ++i)
      StoreLanes(out[p][i], pairs[p].state.values() + d + i * kLanes);
  }
}
template <size_t kPairs>
HWY_NOINLINE void AddAllValues(const WideChunk& wide, const TilePair* pairs, size_t first,
                               size_t end) {
  if (first >= end) return;
  size_t d = 0;
  for (; d + kStrip <= wide.value_stride; d += kStrip)
    AddValues<kPairs, kTileLanes>(wide, pairs, d, first, end);
  for (; d < wide.value_stride; d += kLanes) AddValues<kPairs, 1>(wide, pairs, d, first, end);
}

// States of kPairs pairs and one chunk. What all of them see is added together, and what one sees
// before or behind it by that pair alone: an unseen value is never read.
template <size_t kPairs>
HWY_NOINLINE void AttendTile(const AttentionArgs& args, const WideChunk& wide,
                             const TilePair* pairs) {
  Visible any = pairs[0].visible, all = pairs[0].visible;
  for (size_t p = 1; p < kPairs; ++p) {
    any = {std::min(any.first, pairs[p].visible.first), std::max(any.end, pairs[p].visible.end)};
    all = {std::max(all.first, pairs[p].visible.first), std::min(all.end, pairs[p].visible.end)};
  }
  if (all.first > all.end) all.first = all.end = any.end;
  for (size_t t = any.first / kStrip * kStrip; t < any.end; t += kStrip)
    ScoreStrip<kPairs>(args, wide, pairs, t);
  for (size_t p = 0; p < kPairs; ++p) {
    const Visible visible = pairs[p].visible;
    Exponentiate(pairs[p].scores, visible.first, visible.end, pairs[p].state);
    std::fill_n(pairs[p].state.values(), wide.value_stride, 0.0f);
    AddAllValues<1>(wide, pairs + p, visible.first, std::min(all.first, visible.end));
  }
  AddAllValues<kPairs>(wide, pairs, all.first, all.end);
  for (size_t p = 0; p < kPairs; ++p) {
    const Visible visible = pairs[p].visible;
    AddAllValues<1>(wide, pairs + p, std::max(all.end, visible.first), visible.end);
  }
}

template <size_t kPairs>
void AttendTileOf(size_t count, const AttentionArgs& args, const WideChunk& wide,
                  const TilePair* pairs) {
  if constexpr (kPairs > 1) {
    if (count < kPairs) return AttendTileOf<kPairs - 1>(count, args, wide, pairs);
  }
  AttendTile<kPairs>(args, wide, pairs);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
