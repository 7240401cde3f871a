#include "kernels/moe_route.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace weft::kernels {
namespace {

// Keeps weights finite where all chosen scores are 0; a sum that matters is far above it.
constexpr double kLeastSum = 1e-20;

// A NaN ranks below everything, so that the order is total; the NaN itself still reaches the row's
// result.
float Rank(float logit) {
  return std::isnan(logit) ? -INFINITY : logit;
}

bool IsSoftmax(RouteKind kind) {
  return kind == RouteKind::kSoftmaxTopK || kind == RouteKind::kSoftmaxTopKNormalized;
}

// What an expert's logit is worth next to the others: a share of `sum` or, without others, a
// sigmoid.
class Score {
 public:
  Score(RouteKind kind, std::span<const float> logits) : is_softmax_(IsSoftmax(kind)) {
    if (!is_softmax_) return;
    largest_ = logits[0];
    for (const float logit : logits) largest_ = Rank(logit) > Rank(largest_) ? logit : largest_;
    sum_ = 0;
    for (const float logit : logits) sum_ += std::exp(static_cast<double>(logit) - largest_);
  }
  double operator()(float logit) const {
    if (!is_softmax_) return 1 / (1 + std::exp(-static_cast<double>(logit)));
    return std::exp(static_cast<double>(logit) - largest_) / sum_;
  }

 private:
  bool is_softmax_;
  float largest_ = 0;
  double sum_ = 1;
};

// The sum of the `count` (1 or 2) greatest choices of a group.
double GroupWorth(std::span<const float> group, size_t count) {
  float first = -INFINITY, second = -INFINITY;
  for (const float choice : group) {
    if (Rank(choice) > first) {
      second = std::exchange(first, Rank(choice));
    } else if (Rank(choice) > second) {
      second = Rank(choice);
    }
  }
  return count == 1 ? first : static_cast<double>(first) + second;
}

// Choices of groups that are not among the best become 0.
void KeepBestGroups(const MoeRouteArgs& args, std::span<float> choice) {
  const size_t members = choice.size() / args.groups;
  std::array<double, kMostRouteGroups> worth{};
  for (size_t g = 0; g < args.groups; ++g) {
    worth[g] = GroupWorth(choice.subspan(g * members, members), args.group_best);
  }
  for (size_t g = 0; g < args.groups; ++g) {
    size_t better = 0;  // groups before this one; among equals the lower index is
    for (size_t other = 0; other < args.groups; ++other) {
      better += worth[other] > worth[g] || (worth[other] == worth[g] && other < g) ? 1 : 0;
    }
    if (better >= args.top_groups) std::ranges::fill(choice.subspan(g * members, members), 0.0f);
  }
}

// The indices of the greatest values, by falling value.
void ChooseBest(std::span<const float> values, std::span<float> chosen) {
  size_t found = 0;
  // Insertion into the k best so far: k and the number of experts are small.
  for (size_t expert = 0; expert < values.size(); ++expert) {
    size_t at = found;
    while (at > 0 && Rank(values[expert]) > Rank(values[static_cast<size_t>(chosen[at - 1])])) --at;
    if (at == chosen.size()) continue;
    if (found < chosen.size()) ++found;
    std::copy_backward(chosen.begin() + static_cast<ptrdiff_t>(at),
                       chosen.begin() + static_cast<ptrdiff_t>(found) - 1,
                       chosen.begin() + static_cast<ptrdiff_t>(found));
    chosen[at] = static_cast<float>(expert);
  }
}

// Every chosen expert becomes its parts. From the last one on, as the chosen ones come first.
void WriteParts(size_t parts, std::span<float> chosen, std::span<float> weights) {
  for (size_t slot = chosen.size(); slot-- > 0;) {
    const size_t of = slot / parts;
    chosen[slot] = chosen[of] * static_cast<float>(parts) + static_cast<float>(slot % parts);
    weights[slot] = weights[of];
  }
}

void RouteRow(std::span<const float> logits, const MoeRouteArgs& args, std::span<float> choice,
              std::span<float> out) {
  const std::span<float> chosen = out.first(args.top_k);
  const std::span<float> weights = out.subspan(out.size() / 2, args.top_k);
  if (args.kind == RouteKind::kAll) {
    std::iota(chosen.begin(), chosen.end(), 0.0f);
    std::ranges::fill(weights, 1.0f);
    return;
  }
  const Score score(args.kind, logits);
  if (args.bias.empty() && args.groups == 1) {
    ChooseBest(logits, chosen);  // scores rise with logits
  } else {
    for (size_t e = 0; e < logits.size(); ++e) {
      const double bias = args.bias.empty() ? 0 : args.bias[e];
      choice[e] = static_cast<float>(score(logits[e]) + bias);
    }
    if (args.groups > 1) KeepBestGroups(args, choice);
    ChooseBest(choice, chosen);
  }
  double sum = 0;
  for (const float expert : chosen) sum += score(logits[static_cast<size_t>(expert)]);
  const bool divides = args.kind == RouteKind::kSoftmaxTopKNormalized ||
                       args.kind == RouteKind::kSigmoidTopKNormalized;
  const double factor = divides ? args.scale / (sum + kLeastSum) : args.scale;
  for (size_t i = 0; i < args.top_k; ++i) {
    weights[i] = static_cast<float>(score(logits[static_cast<size_t>(chosen[i])]) * factor);
  }
  if (args.parts > 1) WriteParts(args.parts, out.first(out.size() / 2), out.last(out.size() / 2));
}

}  // namespace

void MoeRouteReference(const MoeRouteArgs& args, Workspace& workspace) {
  const size_t experts = args.logits.columns;
  CHECK(args.top_k > 0 && args.top_k <= experts && args.parts > 0 &&
        args.out.columns == 2 * args.top_k * args.parts && args.out.rows == args.logits.rows);
  CHECK((args.bias.empty() || args.bias.size() == experts) && args.groups > 0 &&
        args.groups <= kMostRouteGroups && experts % args.groups == 0);
  workspace.ReservePrivate(MoeRouteFloats(experts));
  const std::span<float> choice(workspace.Private(0), experts);
  for (size_t row = 0; row < args.logits.rows; ++row) {
    RouteRow(args.logits.Row(row), args, choice, args.out.Row(row));
  }
}

}  // namespace weft::kernels
