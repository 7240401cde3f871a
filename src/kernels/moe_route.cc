#include "kernels/moe_route.h"

#include <algorithm>
#include <cmath>

namespace weft::kernels {
namespace {

// A NaN ranks below everything, so that the order is total; the NaN itself still reaches the row's
// result.
float Rank(float logit) {
  return std::isnan(logit) ? -INFINITY : logit;
}

void RouteRow(std::span<const float> logits, const MoeRouteArgs& args, std::span<float> out) {
  const std::span<float> chosen = out.first(args.top_k);
  const std::span<float> weights = out.last(args.top_k);
  size_t found = 0;
  // Insertion into the k best so far: k and the number of experts are small.
  for (size_t expert = 0; expert < logits.size(); ++expert) {
    size_t at = found;
    while (at > 0 && Rank(logits[expert]) > Rank(logits[static_cast<size_t>(chosen[at - 1])])) --at;
    if (at == args.top_k) continue;
    if (found < args.top_k) ++found;
    std::copy_backward(chosen.begin() + static_cast<ptrdiff_t>(at),
                       chosen.begin() + static_cast<ptrdiff_t>(found) - 1,
                       chosen.begin() + static_cast<ptrdiff_t>(found));
    chosen[at] = static_cast<float>(expert);
  }

  const float largest = logits[static_cast<size_t>(chosen[0])];
  double all = 0;
  for (const float logit : logits) all += std::exp(static_cast<double>(logit) - largest);
  double best = 0;
  for (const float expert : chosen) {
    best += std::exp(static_cast<double>(logits[static_cast<size_t>(expert)]) - largest);
  }
  const double sum = args.kind == RouteKind::kSoftmaxTopK ? all : best;
  for (size_t i = 0; i < args.top_k; ++i) {
    const float logit = logits[static_cast<size_t>(chosen[i])];
    weights[i] = static_cast<float>(std::exp(static_cast<double>(logit) - largest) / sum);
  }
}

}  // namespace

void MoeRouteReference(const MoeRouteArgs& args, Workspace&) {
  CHECK(args.top_k > 0 && args.top_k <= args.logits.columns && args.out.columns == 2 * args.top_k &&
        args.out.rows == args.logits.rows);
  for (size_t row = 0; row < args.logits.rows; ++row) {
    RouteRow(args.logits.Row(row), args, args.out.Row(row));
  }
}

}  // namespace weft::kernels
