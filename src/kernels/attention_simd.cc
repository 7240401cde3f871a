// Attention with vectors: for each row and each group of query heads that share a kv head, scores
// page by page (lanes are positions), softmax over all of them, then the weighted sum of values
// (lanes are columns). Every row is computed by itself in the order of positions, so its bits
// depend on nothing but its session.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/simd_targets.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"

// What does not depend on the target is compiled once.
#ifndef WEFT_KERNELS_ATTENTION_SIMD_ONCE
#define WEFT_KERNELS_ATTENTION_SIMD_ONCE
namespace weft::kernels {
namespace {

// One row and the query heads [first_head, first_head + heads in the group) of one kv head.
struct HeadGroup {
  size_t row = 0;
  size_t kv_head = 0;
  size_t first_head = 0;
};

}  // namespace
}  // namespace weft::kernels
#endif  // WEFT_KERNELS_ATTENTION_SIMD_ONCE

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Heads whose accumulators fit the registers together.
inline constexpr size_t kMaxHeads = kWidth == 16 ? kAttentionHeadGroup : 2;
static_assert(kPagePositions == 2 * kLanes);

// What LoadWiden reads pages of `Element` as.
template <typename Element>
using Stored = std::conditional_t<std::is_same_v<Element, uint16_t>, Half, Element>;

void AppendHead(const AttentionArgs& args, size_t row, size_t head) {
  const AttentionRow& kv_row = args.kv_rows[row];
  const size_t columns = args.kv.head_columns;
  const auto k = args.k.Row(row).subspan(head * columns, columns);
  const bool in_keys = args.kv.values_in_keys();
  const auto v =
      in_keys ? std::span<const float>() : args.v.Row(row).subspan(head * columns, columns);
  const size_t slot = kv_row.position % kPagePositions;
  if (args.kv.dtype == DType::kF32) {
    return StoreKv(args.kv, kv_row.Page<float>(kv_row.position / kPagePositions), slot, head, k, v);
  }
  auto* page = kv_row.Page<uint16_t>(kv_row.position / kPagePositions);
#if HWY_TARGET == HWY_SSE4
  StoreKv(args.kv, page, slot, head, k, v);  // no hardware conversion to f16
#else
  const auto narrow = [](const float* from, size_t n, uint16_t* to) HWY_ATTR {
    const hn::Rebind<hwy::float16_t, DF> d16;
    const Lanes x = LoadSome(from, n);
    for (size_t p = 0; p < kParts; ++p) {
      hn::StoreU(hn::DemoteTo(d16, x.part[p]), d16,
                 reinterpret_cast<hwy::float16_t*>(to + p * kWidth));
    }
  };
  alignas(64) uint16_t narrow_values[kLanes];
  ForLanes(columns, [&](size_t d, size_t n) HWY_ATTR {
    narrow(k.data() + d, n, narrow_values);
    if (in_keys) {
      std::memcpy(page + args.kv.KeyIndex(head, d, slot), narrow_values, n * sizeof(uint16_t));
      return;
    }
    for (size_t i = 0; i < n; ++i) page[args.kv.KeyIndex(head, d + i, slot)] = narrow_values[i];
    narrow(v.data() + d, n, narrow_values);
    std::memcpy(page + args.kv.ValueIndex(head, slot, d), narrow_values, n * sizeof(uint16_t));
  });
#endif
}

// The work of one task, for one row and the query heads of one kv head:
//
//   score[h][t] = cap(scale * sum_d q[h][d] * k[t][d])       over the visible positions t
//   w[h][t]     = exp(score[h][t] - max)                     sinks take part in max and sum alone
//   out[h][d]   = sum_t w[h][t] * v[t][d] / sum_t w[h][t]
//
// A page keeps keys as [column][position] and values as [position][column]: in the first sum lanes
// are 32 positions and a column of q is one number for all of them, in the second lanes are columns
// and a weight is one number. Either way memory is read front to back once for all heads of the
// group, whose queries differ but whose keys are the same; that sharing is what grouped heads save.
//
// The scores of all positions are kept (4 bytes each a head) instead of being folded page by page:
// the maximum is then known before the first exponential, so that nothing is rescaled, and the sums
// run in the order of positions from the first visible one, whatever the page it lies in.

// The scores of one page's 32 positions for each head, unmasked, to scores + head * stride.
template <typename Element, size_t kHeads>
HWY_INLINE void ScorePage(const AttentionArgs& args, const float* q, const Element* keys,
                          float* scores, size_t stride) {
  const size_t columns = args.kv.head_columns;
  Lanes sum[kHeads][2];
  HWY_UNROLL(16)
  for (size_t h = 0; h < kHeads; ++h) sum[h][0] = sum[h][1] = Splat(0);
  for (size_t d = 0; d < columns; ++d) {
    const auto* key = reinterpret_cast<const Stored<Element>*>(keys + d * kPagePositions);
    const Lanes low = LoadWiden(key);
    const Lanes high = LoadWiden(key + kLanes);
    HWY_UNROLL(16)
    for (size_t h = 0; h < kHeads; ++h) {
      const Lanes x = Splat(q[h * columns + d]);
      sum[h][0] = MulAdd(x, low, sum[h][0]);
      sum[h][1] = MulAdd(x, high, sum[h][1]);
    }
  }
  const Lanes scale = Splat(args.scale);
  const Lanes cap = Splat(args.softcap);
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t i = 0; i < 2; ++i) {
      Lanes score = Mul(sum[h][i], scale);
      if (args.softcap != 0) score = Mul(cap, Tanh(Div(score, cap)));
      StoreLanes(score, scores + h * stride + i * kLanes);
    }
  }
}

// The same where keys lie position by position, with their values in them: lanes are columns, and
// a sum over them ends each score. Slots that hold nothing give whatever; the caller masks them.
template <typename Element, size_t kHeads>
HWY_INLINE void ScoreRows(const AttentionArgs& args, const float* q, const Element* keys,
                          float* scores, size_t stride) {
  const size_t columns = args.kv.head_columns;
  for (size_t slot = 0; slot < kPagePositions; ++slot, keys += columns) {
    Lanes sum[kHeads];
    HWY_UNROLL(16)
    for (size_t h = 0; h < kHeads; ++h) sum[h] = Splat(0);
    ForLanes(columns, [&](size_t d, size_t n) HWY_ATTR {
      Stored<Element> padded[kLanes] = {};
      if (n < kLanes) std::memcpy(padded, keys + d, n * sizeof(Element));
      const Lanes key =
          LoadWiden(n < kLanes ? padded : reinterpret_cast<const Stored<Element>*>(keys + d));
      HWY_UNROLL(16)
      for (size_t h = 0; h < kHeads; ++h) {
        sum[h] = MulAdd(LoadSome(q + h * columns + d, n), key, sum[h]);
      }
    });
    for (size_t h = 0; h < kHeads; ++h) {
      float score = SumOf(sum[h]) * args.scale;
      if (args.softcap != 0) score = args.softcap * std::tanh(score / args.softcap);
      scores[h * stride + slot] = score;
    }
  }
}

// A sink is a score without a position: a head can give it weight and so attend to nothing. It
// counts in the maximum and the sum, and no value is added for it.

// Turns `count` scores (whole pages) into exponentials; returns their sum, the sink's included.
HWY_INLINE float Exponentiate(float* scores, size_t count, const float* sink) {
  Lanes largest = Splat(sink == nullptr ? -INFINITY : *sink);
  for (size_t i = 0; i < count; i += kLanes) largest = Max(largest, LoadLanes(scores + i));
  const float shift = MaxOf(largest);
  const Lanes shifts = Splat(shift);
  Lanes sum = Splat(0);
  for (size_t i = 0; i < count; i += kLanes) {
    const Lanes e = Exp(Sub(LoadLanes(scores + i), shifts));
    StoreLanes(e, scores + i);
    sum = Add(sum, e);
  }
  return SumOf(sum) + (sink == nullptr ? 0.0f : std::exp(*sink - shift));
}

// The positions that a row sees, in whole pages.
struct Visible {
  uint32_t first = 0;  // first visible position
  uint32_t end = 0;    // one past the last
  uint32_t first_page = 0;
  uint32_t page_count = 0;
};

// Columns [d, d + 16 kVectors) of the output of each head, or [d, d + tail) when tail > 0 (kVectors
// is 1 then).
template <typename Element, size_t kHeads, size_t kVectors>
HWY_INLINE void SumValues(const AttentionArgs& args, const HeadGroup& group, const Visible& visible,
                          const float* weights, size_t stride, const float* sums, size_t d,
                          size_t tail) {
  const AttentionRow& kv_row = args.kv_rows[group.row];
  const size_t columns = args.kv.head_columns;
  Lanes out[kHeads][kVectors];
  HWY_UNROLL(16)
  for (size_t h = 0; h < kHeads; ++h) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kVectors; ++i) out[h][i] = Splat(0);
  }
  for (uint32_t position = visible.first; position < visible.end;) {
    const auto* page = kv_row.Page<Element>(position / kPagePositions);
    const size_t slot = position % kPagePositions;
    const Element* values = page + args.kv.ValueIndex(group.kv_head, slot, d);
    const size_t in_page = std::min<size_t>(kPagePositions - slot, visible.end - position);
    const float* weight = weights + (position - visible.first_page * kPagePositions);
    for (size_t p = 0; p < in_page; ++p, values += columns) {
      Lanes v[kVectors];
      if (tail > 0) {
        Stored<Element> padded[kLanes] = {};
        std::memcpy(padded, values, tail * sizeof(Element));
        v[0] = LoadWiden(padded);
      } else {
        HWY_UNROLL(16)
        for (size_t i = 0; i < kVectors; ++i) {
          v[i] = LoadWiden(reinterpret_cast<const Stored<Element>*>(values + i * kLanes));
        }
      }
      HWY_UNROLL(16)
      for (size_t h = 0; h < kHeads; ++h) {
        const Lanes w = Splat(weight[h * stride + p]);
        HWY_UNROLL(16)
        for (size_t i = 0; i < kVectors; ++i) out[h][i] = MulAdd(w, v[i], out[h][i]);
      }
    }
    position += static_cast<uint32_t>(in_page);
  }
  for (size_t h = 0; h < kHeads; ++h) {
    float* to = args.out.Row(group.row).data() + (group.first_head + h) * args.kv.out_columns() + d;
    const Lanes sum = Splat(sums[h]);
    for (size_t i = 0; i < kVectors; ++i) {
      StoreSome(Div(out[h][i], sum), to + i * kLanes, tail > 0 ? tail : kLanes);
    }
  }
}

// `scores` is room for kHeads times the visible pages' positions.
template <typename Element, size_t kHeads>
HWY_NOINLINE void Attend(const AttentionArgs& args, const HeadGroup& group, float* scores) {
  const AttentionRow& kv_row = args.kv_rows[group.row];
  const uint32_t position = kv_row.position;
  const size_t columns = args.kv.head_columns;
  Visible visible;
  visible.first = args.FirstVisible(position);
  visible.end = position + 1;
  visible.first_page = visible.first / kPagePositions;
  visible.page_count = position / kPagePositions - visible.first_page + 1;
  const size_t stride = visible.page_count * kPagePositions;

  const float* q = args.q.Row(group.row).data() + group.first_head * columns;
  for (size_t i = 0; i < visible.page_count; ++i) {
    const Element* keys =
        kv_row.Page<Element>(visible.first_page + i) + args.kv.KeyIndex(group.kv_head, 0, 0);
    if (args.kv.values_in_keys()) {
      ScoreRows<Element, kHeads>(args, q, keys, scores + i * kPagePositions, stride);
    } else {
      ScorePage<Element, kHeads>(args, q, keys, scores + i * kPagePositions, stride);
    }
  }
  float sums[kHeads];
  for (size_t h = 0; h < kHeads; ++h) {
    float* head_scores = scores + h * stride;
    // Slots before the window and after the row itself hold nothing, or what a truncation left.
    std::fill_n(head_scores, visible.first % kPagePositions, -INFINITY);
    std::fill(head_scores + (visible.end - visible.first_page * kPagePositions),
              head_scores + stride, -INFINITY);
    const float* sink = args.sinks.empty() ? nullptr : &args.sinks[group.first_head + h];
    sums[h] = Exponentiate(head_scores, stride, sink);
  }
  const size_t values = args.kv.out_columns();
  size_t d = 0;
  for (; d + 4 * kLanes <= values; d += 4 * kLanes) {
    SumValues<Element, kHeads, 4>(args, group, visible, scores, stride, sums, d, 0);
  }
  for (; d + kLanes <= values; d += kLanes) {
    SumValues<Element, kHeads, 1>(args, group, visible, scores, stride, sums, d, 0);
  }
  if (d < values)
    SumValues<Element, kHeads, 1>(args, group, visible, scores, stride, sums, d, values - d);
}

// All query heads of one kv head for one row.
template <typename Element>
void AttendKvHeadOf(const AttentionArgs& args, size_t row, size_t kv_head, float* scores) {
  const size_t shared = args.heads / args.kv.kv_heads;
  for (size_t i = 0; i < shared;) {
    const HeadGroup group = {row, kv_head, kv_head * shared + i};
    const size_t left = shared - i;
    if (left >= 4 && kMaxHeads >= 4) {
      Attend<Element, kMaxHeads>(args, group, scores);
      i += kMaxHeads;
    } else if (left >= 2) {
      Attend<Element, 2>(args, group, scores);
      i += 2;
    } else {
      Attend<Element, 1>(args, group, scores);
      i += 1;
    }
  }
}

void AttendKvHead(const AttentionArgs& args, size_t row, size_t kv_head, float* scores) {
  if (args.kv.dtype == DType::kF32) return AttendKvHeadOf<float>(args, row, kv_head, scores);
  AttendKvHeadOf<uint16_t>(args, row, kv_head, scores);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(AppendHead);
HWY_EXPORT(AttendKvHead);

void AttentionSimd(const AttentionArgs& args, Workspace& workspace) {
  CheckAttention(args);
  const size_t rows = args.q.rows;
  const size_t kv_heads = args.kv.kv_heads;
  // Threads take whole heads: neighbouring positions of a head share cache lines.
  const auto append = [&](size_t head, size_t) {
    for (size_t row = 0; row < rows; ++row) HWY_DYNAMIC_DISPATCH(AppendHead)(args, row, head);
  };
  if (args.appends() && rows >= 8) {
    workspace.threads().Run(kv_heads, append);
  } else if (args.appends()) {
    for (size_t head = 0; head < kv_heads; ++head) append(head, 0);
  }

  uint32_t end_position = 0;
  for (const AttentionRow& row : args.kv_rows)
    end_position = std::max(end_position, row.position + 1);
  workspace.ReservePrivate(AttentionThreadFloats(end_position));
  workspace.threads().Run(rows * kv_heads, [&](size_t task, size_t thread) {
    HWY_DYNAMIC_DISPATCH(AttendKvHead)
    (args, task % rows, task / rows, workspace.Private(thread));
  });
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
