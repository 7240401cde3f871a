// The best token of a row and its runner-up with vectors: sixteen logits are compared at once with
// the runner-up so far, and only the few that beat it are looked at one by one. In a vocabulary of
// random order that is about 2 ln(vocabulary) of them, so the pass runs at the speed of memory.
#include "kernels/argmax.h"

#include <utility>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/argmax_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Offers logits [first, end), whose ids are above all that were offered: they lose ties.
HWY_INLINE void OfferTwo(const float* logits, size_t first, size_t end, ArgmaxResult& two) {
  for (size_t i = first; i < end; ++i) {
    if (!(logits[i] > two.second.logit)) continue;
    two.second = {static_cast<int32_t>(i), logits[i]};
    if (two.second.logit > two.best.logit) std::swap(two.best, two.second);
  }
}

ArgmaxResult FindTwo(std::span<const float> logits) {
  ArgmaxResult two;
  two.best = two.second = {0, logits[0]};
  if (logits.size() == 1) return two;
  two.second = {1, logits[1]};
  if (two.second.logit > two.best.logit) std::swap(two.best, two.second);
  size_t i = 2;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    if (!AnyAbove(logits.data() + i, hn::Set(df, two.second.logit))) continue;
    OfferTwo(logits.data(), i, i + kLanes, two);
  }
  OfferTwo(logits.data(), i, logits.size(), two);
  return two;
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(FindTwo);

ArgmaxResult ArgmaxSimd(std::span<const float> logits) {
  CHECK(!logits.empty());
  return HWY_DYNAMIC_DISPATCH(FindTwo)(logits);
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
