#include "sampling/draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "sampling/penalize.h"

namespace weft::sampling {
namespace {

// Tokens by falling logit, sorted only as far as somebody looks.
class FallingTokens {
 public:
  FallingTokens(std::span<const float> logits, float temperature)
      : logits_(logits), temperature_(temperature), ids_(logits.size()) {
    std::iota(ids_.begin(), ids_.end(), 0);
    Extend();
    largest_ = Logit(ids_[0]);
  }

  int32_t id(size_t rank) {
    while (rank >= sorted_) Extend();
    return ids_[rank];
  }
  double weight(size_t rank) { return Weight(id(rank)); }
  // Of all tokens.
  double Sum() const {
    double sum = 0;
    for (size_t i = 0; i < ids_.size(); ++i) sum += Weight(static_cast<int32_t>(i));
    return sum;
  }

 private:
  float Logit(int32_t id) const { return logits_[static_cast<size_t>(id)]; }
  double Weight(int32_t id) const {
    return std::exp((static_cast<double>(Logit(id)) - largest_) / temperature_);
  }

  void Extend() {
    const size_t end = std::min(ids_.size(), std::max<size_t>(256, 4 * sorted_));
    const auto at = [&](size_t rank) { return ids_.begin() + static_cast<std::ptrdiff_t>(rank); };
    const auto better = [&](int32_t a, int32_t b) {
      return Logit(a) > Logit(b) || (Logit(a) == Logit(b) && a < b);
    };
    if (end < ids_.size()) std::nth_element(at(sorted_), at(end), ids_.end(), better);
    std::sort(at(sorted_), at(end), better);
    sorted_ = end;
  }

  const std::span<const float> logits_;
  const float temperature_;
  std::vector<int32_t> ids_;
  size_t sorted_ = 0;
  double largest_ = 0;
};

double SumOfFirst(FallingTokens& tokens, size_t count) {
  double sum = 0;
  for (size_t rank = 0; rank < count; ++rank) sum += tokens.weight(rank);
  return sum;
}

}  // namespace

int32_t Draw(const Parameters& parameters, std::span<const float> logits, double uniform) {
  CHECK(!logits.empty(), "a draw needs a row of logits");
  FallingTokens tokens(logits, parameters.temperature);
  if (parameters.temperature == 0) return tokens.id(0);
  const size_t vocabulary = logits.size();
  size_t kept = vocabulary;
  if (parameters.top_k > 0) kept = std::min(kept, static_cast<size_t>(parameters.top_k));
  double sum = kept == vocabulary ? tokens.Sum() : SumOfFirst(tokens, kept);
  if (parameters.top_p < 1) {
    const double wanted = static_cast<double>(parameters.top_p) * sum;
    size_t count = 0;
    double first = 0;
    do first += tokens.weight(count++);
    while (count < kept && first < wanted);
    kept = count;
    sum = first;
  }
  if (parameters.min_p > 0) {
    size_t count = 0;
    double first = 0;
    for (; count < kept && tokens.weight(count) >= parameters.min_p; ++count) {
      first += tokens.weight(count);
    }
    kept = count;
    sum = first;
  }
  const double target = uniform * sum;
  double passed = 0;
  for (size_t rank = 0; rank + 1 < kept; ++rank) {
    passed += tokens.weight(rank);
    if (passed > target) return tokens.id(rank);
  }
  return tokens.id(kept - 1);
}

int32_t DrawAfterPenalties(const Parameters& parameters, std::span<const int32_t> history,
                           std::span<const float> logits, double uniform) {
  std::vector<float> changed(logits.begin(), logits.end());
  if (parameters.ChangesLogits()) Penalize(parameters, CountTokens(history), changed);
  return Draw(parameters, changed, uniform);
}

}  // namespace weft::sampling
