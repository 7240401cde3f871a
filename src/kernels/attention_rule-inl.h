// The rule of attention, chunk by chunk, over sixteen lanes. Included once per target by
// attention_simd.cc and what it is made of, inside Highway's dispatch.
//
// For a row and a head, of the visible positions of each chunk of kChunkPositions, counted from
// position 0:
//   score[t] = cap(scale * sum_d q[d] * k[t][d])   d rising
//   m = max score,  w[t] = exp(score[t] - m),  l = sum w in sixteen lanes, folded
//   o[d] = sum_t w[t] * v[t][d]                    t rising
// and chunks merge in rising order, (m, l, o) with the next (n, k, p):
//   M = max(m, n),  l = l * exp(m - M) + k * exp(n - M),  o = o * exp(m - M) + p * exp(n - M)
// A sink is one more score without a value, and comes last. The output is o / l.
#if defined(WEFT_KERNELS_ATTENTION_RULE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_ATTENTION_RULE_INL_H_
#undef WEFT_KERNELS_ATTENTION_RULE_INL_H_
#else
#define WEFT_KERNELS_ATTENTION_RULE_INL_H_
#endif

#include <cmath>

#include "kernels/attention_plan.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// What LoadWiden reads pages of `Element` as.
template <typename Element>
using Stored = std::conditional_t<std::is_same_v<Element, uint16_t>, Half, Element>;

HWY_INLINE void StoreScores(const AttentionArgs& args, const Lanes& sum, float* to) {
  Lanes score = Mul(sum, Splat(args.scale));
  if (args.softcap != 0) {
    const Lanes cap = Splat(args.softcap);
    score = Mul(cap, Tanh(Div(score, cap)));
  }
  StoreLanes(score, to);
}

// Turns the scores of positions [first, end) of a chunk into weights, and writes m and l. What lies
// beside them up to whole lanes, before and behind, gets the weight 0.
HWY_INLINE void Exponentiate(float* scores, size_t first, size_t end, AttentionState state) {
  const size_t from = first / kLanes * kLanes, to = (end + kLanes - 1) / kLanes * kLanes;
  for (size_t i = from; i < first; ++i) scores[i] = -INFINITY;
  for (size_t i = end; i < to; ++i) scores[i] = -INFINITY;
  Lanes largest = Splat(-INFINITY);
  for (size_t i = from; i < to; i += kLanes) largest = Max(largest, LoadLanes(scores + i));
  *state.largest() = MaxOf(largest);
  const Lanes shift = Splat(*state.largest());
  Lanes sum = Splat(0);
  for (size_t i = from; i < to; i += kLanes) {
    const Lanes e = Exp(Sub(LoadLanes(scores + i), shift));
    StoreLanes(e, scores + i);
    sum = Add(sum, e);
  }
  *state.sum() = SumOf(sum);
}

// exp(score - largest) in all lanes.
HWY_INLINE Lanes Share(float score, float largest) {
  return Exp(Sub(Splat(score), Splat(largest)));
}
HWY_INLINE float First(const Lanes& lanes) {
  alignas(64) float values[kLanes];
  StoreLanes(lanes, values);
  return values[0];
}

// The next chunk joins those before it. `columns` are whole lanes.
void MergeStates(AttentionState state, AttentionState next, size_t columns) {
  const float largest = *state.largest() > *next.largest() ? *state.largest() : *next.largest();
  const Lanes a = Share(*state.largest(), largest), b = Share(*next.largest(), largest);
  *state.largest() = largest;
  *state.sum() = First(MulAdd(Splat(*next.sum()), b, Mul(Splat(*state.sum()), a)));
  for (size_t d = 0; d < columns; d += kLanes) {
    const Lanes o = Mul(LoadLanes(state.values() + d), a);
    StoreLanes(MulAdd(LoadLanes(next.values() + d), b, o), state.values() + d);
  }
}

// Writes the output of a head. `sink` is null where there is none.
void FinishState(AttentionState state, const float* sink, std::span<float> out) {
  Lanes sum = Splat(*state.sum()), share = Splat(1);
  if (sink != nullptr) {
    const float largest = *state.largest() > *sink ? *state.largest() : *sink;
    share = Share(*state.largest(), largest);
    sum = MulAdd(sum, share, Share(*sink, largest));
  }
  ForLanes(out.size(), [&](size_t d, size_t n) HWY_ATTR {
    const Lanes o = LoadLanes(state.values() + d);
    StoreSome(Div(sink == nullptr ? o : Mul(o, share), sum), out.data() + d, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
