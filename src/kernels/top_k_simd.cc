// Selection over a row of logits: one pass finds the candidates with a heap whose root is the bar
// to pass, one pass sums the exponentials.
#include "kernels/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/top_k_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::kernels {
namespace HWY_NAMESPACE {

// Offers logits [first, end) to the heap `best`, whose root is the worst kept.
template <typename Better>
HWY_INLINE void Offer(const float* logits, size_t first, size_t end, std::span<TokenLogit> best,
                      const Better& better) {
  for (size_t i = first; i < end; ++i) {
    if (!(logits[i] > best[0].logit)) continue;  // later ids lose ties
    std::pop_heap(best.begin(), best.end(), better);
    best.back() = {static_cast<int32_t>(i), logits[i]};
    std::push_heap(best.begin(), best.end(), better);
  }
}

void FindBest(std::span<const float> logits, std::span<TokenLogit> best) {
  const auto better = [](const TokenLogit& a, const TokenLogit& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token_id < b.token_id);
  };
  for (size_t i = 0; i < best.size(); ++i) best[i] = {static_cast<int32_t>(i), logits[i]};
  std::make_heap(best.begin(), best.end(), better);
  size_t i = best.size();
  for (; i + kLanes <= logits.size(); i += kLanes) {
    if (!AnyAbove(logits.data() + i, hn::Set(df, best[0].logit))) continue;
    Offer(logits.data(), i, i + kLanes, best, better);
  }
  Offer(logits.data(), i, logits.size(), best, better);
  std::sort_heap(best.begin(), best.end(), better);
}

double SumOfExp(std::span<const float> logits, float largest, float factor) {
  const Lanes shift = Splat(largest);
  const Lanes scale = Splat(factor);
  double total = 0;
  // Blocks of 1024 are summed in f32, the blocks in f64.
  for (size_t first = 0; first < logits.size(); first += 1024) {
    const auto block = logits.subspan(first, std::min<size_t>(1024, logits.size() - first));
    Lanes sum = Splat(0);
    ForLanes(block.size(), [&](size_t i, size_t n) HWY_ATTR {
      sum = Add(sum, Exp(Mul(Sub(LoadSome(block.data() + i, n, -INFINITY), shift), scale)));
    });
    total += SumOf(sum);
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace weft::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::kernels {

HWY_EXPORT(FindBest);
HWY_EXPORT(SumOfExp);

float TopKSimd(const TopKArgs& args) {
  CHECK(!args.best.empty() && args.best.size() <= std::min(kMaxTopK, args.logits.size()));
  HWY_DYNAMIC_DISPATCH(FindBest)(args.logits, args.best);
  const float largest = args.best[0].logit;
  const double sum = HWY_DYNAMIC_DISPATCH(SumOfExp)(args.logits, largest, 1.0f);
  return static_cast<float>(largest + std::log(sum));
}

double ScaledSumSimd(const ScaledSumArgs& args) {
  return HWY_DYNAMIC_DISPATCH(SumOfExp)(
      args.logits, args.largest,
      std::min(1.0f / args.temperature, std::numeric_limits<float>::max()));  // 0 * inf is no 0
}

}  // namespace weft::kernels
#endif  // HWY_ONCE
