#include "onnx/dim_expr.h"

namespace weft::onnx {
namespace {

// a + factor * b within the range of expressions.
std::optional<int64_t> MultiplyAdd(int64_t a, int64_t factor, int64_t b) {
  constexpr int64_t kLimit = int64_t{1} << 40;
  int64_t product = 0;
  int64_t sum = 0;
  if (__builtin_mul_overflow(factor, b, &product) || __builtin_add_overflow(a, product, &sum)) {
    return std::nullopt;
  }
  if (sum > kLimit || sum < -kLimit) return std::nullopt;
  return sum;
}

}  // namespace

std::optional<DimExpr> DimExpr::Plus(const DimExpr& other, int64_t factor) const {
  DimExpr sum = *this;
  const auto constant = MultiplyAdd(constant_, factor, other.constant_);
  if (!constant) return std::nullopt;
  sum.constant_ = *constant;
  for (const auto& [term, coefficient] : other.terms_) {
    int64_t& mine = sum.terms_[term];
    const auto combined = MultiplyAdd(mine, factor, coefficient);
    if (!combined) return std::nullopt;
    mine = *combined;
    if (mine == 0) sum.terms_.erase(term);
  }
  return sum;
}

std::optional<DimExpr> DimExpr::DividedBy(int64_t divisor) const {
  if (divisor == 0 || constant_ % divisor != 0) return std::nullopt;
  DimExpr quotient(constant_ / divisor);
  for (const auto& [term, coefficient] : terms_) {
    if (coefficient % divisor != 0) return std::nullopt;
    quotient.terms_.emplace(term, coefficient / divisor);
  }
  return quotient;
}

}  // namespace weft::onnx
