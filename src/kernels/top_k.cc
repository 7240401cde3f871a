#include "kernels/top_k.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace weft::kernels {

float TopKReference(const TopKArgs& args) {
  CHECK(!args.best.empty() && args.best.size() <= std::min(kMaxTopK, args.logits.size()));
  std::vector<int32_t> order(args.logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
    return args.logits[static_cast<size_t>(a)] > args.logits[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < args.best.size(); ++i) {
    args.best[i] = {order[i], args.logits[static_cast<size_t>(order[i])]};
  }
  const float largest = args.best[0].logit;
  double sum = 0;
  for (const float logit : args.logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<float>(largest + std::log(sum));
}

double ScaledSumReference(const ScaledSumArgs& args) {
  double sum = 0;
  for (const float logit : args.logits) {
    sum += std::exp((static_cast<double>(logit) - args.largest) / args.temperature);
  }
  return sum;
}

}  // namespace weft::kernels
