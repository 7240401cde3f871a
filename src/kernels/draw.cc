#include "kernels/draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace weft::kernels {
namespace {

// Tokens by falling logit, sorted only as far as somebody looks.
class FallingTokens {
 public:
  explicit FallingTokens(const DrawArgs& args) : args_(args), ids_(args.logits.size()) {
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
  float Logit(int32_t id) const { return args_.logits[static_cast<size_t>(id)]; }
  double Weight(int32_t id) const {
    return std::exp((static_cast<double>(Logit(id)) - largest_) / args_.temperature);
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

  const DrawArgs& args_;
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

int32_t Draw(const DrawArgs& args) {
  CHECK(!args.logits.empty());
  FallingTokens tokens(args);
  if (args.temperature == 0) return tokens.id(0);
  const size_t vocabulary = args.logits.size();
  size_t kept = vocabulary;
  if (args.top_k > 0) kept = std::min(kept, static_cast<size_t>(args.top_k));
  double sum = kept == vocabulary ? tokens.Sum() : SumOfFirst(tokens, kept);
  if (args.top_p < 1) {
    const double wanted = static_cast<double>(args.top_p) * sum;
    size_t count = 0;
    double first = 0;
    do first += tokens.weight(count++);
    while (count < kept && first < wanted);
    kept = count;
    sum = first;
  }
  if (args.min_p > 0) {
    size_t count = 0;
    double first = 0;
    for (; count < kept && tokens.weight(count) >= args.min_p; ++count) {
      first += tokens.weight(count);
    }
    kept = count;
    sum = first;
  }
  const double target = args.uniform * sum;
  double passed = 0;
  for (size_t rank = 0; rank + 1 < kept; ++rank) {
    passed += tokens.weight(rank);
    if (passed > target) return tokens.id(rank);
  }
  return tokens.id(kept - 1);
}

}  // namespace weft::kernels
