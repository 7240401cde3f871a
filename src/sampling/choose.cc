#include "sampling/choose.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace weft::sampling {
namespace {

// Of the mass: how far scaled_sum, which devices add up and send in f32, may be from the sum of all
// weights. Whatever lies as near as this to the border between two tokens is not settled here. An
// example that happened: a draw at 10.083053592 of a mass of 18.8 beside a border at 10.083053583
// was one token by all logits and its neighbour by the candidates.
constexpr double kRounding = 4e-6;

// Which of the candidates may be drawn, and what of the tokens beyond them.
struct Kept {
  std::vector<double> weights;  // of the candidates that are kept, the best one's is 1
  double beyond = 0;            // mass of the other tokens that are kept
  bool open = false;            // there are, or may be, such tokens
  double rounding = 0;          // of the mass, while that is not added up here

  double ListedMass() const {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    return sum;
  }
  void KeepFirst(size_t count) {
    weights.resize(count);
    beyond = rounding = 0;
    open = false;
  }
};

// False: the candidates do not settle it.
bool KeepTopK(int32_t top_k, Kept& kept) {
  if (top_k <= 0) return true;
  const auto wanted = static_cast<size_t>(top_k);
  if (wanted <= kept.weights.size()) {
    kept.KeepFirst(wanted);
    return true;
  }
  return !kept.open;
}

// The smallest set with at least top_p of the mass, and at least one token.
bool KeepTopP(float top_p, Kept& kept) {
  if (top_p >= 1) return true;
  const double wanted = static_cast<double>(top_p) * (kept.ListedMass() + kept.beyond);
  double sum = 0;
  for (size_t i = 0; i < kept.weights.size(); ++i) {
    sum += kept.weights[i];
    if (std::abs(sum - wanted) < kept.rounding) return false;
    if (sum < wanted) continue;
    kept.KeepFirst(i + 1);
    return true;
  }
  return !kept.open;
}

bool KeepMinP(float min_p, Kept& kept) {
  if (min_p <= 0) return true;
  if (kept.open && kept.weights.back() >= min_p) return false;  // so may be others
  size_t count = 0;
  while (count < kept.weights.size() && kept.weights[count] >= min_p) ++count;
  kept.KeepFirst(count);
  return true;
}

}  // namespace

std::optional<size_t> ChooseCandidate(const Parameters& parameters,
                                      std::span<const TokenLogit> candidates, double scaled_sum,
                                      uint32_t vocabulary, double uniform) {
  CHECK(!candidates.empty(), "sampling needs at least one candidate");
  if (parameters.IsGreedy()) return 0;
  Kept kept;
  for (const TokenLogit& candidate : candidates) {
    const double below = static_cast<double>(candidate.logit) - candidates[0].logit;
    kept.weights.push_back(std::exp(below / parameters.temperature));
  }
  kept.open = candidates.size() < vocabulary;
  if (kept.open) {
    kept.beyond = std::max(0.0, scaled_sum - kept.ListedMass());
    kept.rounding = kRounding * scaled_sum;
  }
  if (!KeepTopK(parameters.top_k, kept) || !KeepTopP(parameters.top_p, kept) ||
      !KeepMinP(parameters.min_p, kept))
    return std::nullopt;
  const double target = uniform * (kept.ListedMass() + kept.beyond);
  double sum = 0;
  for (size_t i = 0; i < kept.weights.size(); ++i) {
    sum += kept.weights[i];
    if (std::abs(sum - target) < kept.rounding) return std::nullopt;
    if (sum > target) return i;
  }
  if (kept.open) return std::nullopt;
  return kept.weights.size() - 1;  // rounding: nothing lies beyond
}

}  // namespace weft::sampling
