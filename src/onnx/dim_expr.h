// Dimensions as expressions over the few lengths that vary between calls of a decoder: batch,
// sequence, past. Linear only: that is what masks, positions and reshapes are made of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::onnx {

// A length that varies or is not declared.
struct DimTerm {
  enum class Kind {
    kBatch,      // rows of the tokens or of the residual stream
    kSequence,   // positions in this call
    kHidden,     // columns of the residual stream where the graph does not tell
    kPast,       // axis `axis` of a layer's state input; the same for all layers
    kInputAxis,  // axis `axis` of the graph input `input`
    kOpaque,     // whatever axis `axis` of the value `input` is: equal to itself, computed nowhere
  };
  Kind kind = Kind::kBatch;
  int64_t axis = 0;
  std::string input;

  auto operator<=>(const DimTerm&) const = default;
};

// A constant + sum of coefficient * term. Coefficients are never zero. Constants of expressions
// stay below 2^40 in magnitude; what would exceed that has no expression (nullopt).
class DimExpr {
 public:
  DimExpr() = default;
  explicit DimExpr(int64_t constant) : constant_(constant) {}
  explicit DimExpr(DimTerm term) { terms_.emplace(std::move(term), 1); }

  bool is_constant() const { return terms_.empty(); }
  bool Is(int64_t value) const { return is_constant() && constant_ == value; }
  int64_t constant() const { return constant_; }
  const std::map<DimTerm, int64_t>& terms() const { return terms_; }

  // Gives this + factor * other.
  std::optional<DimExpr> Plus(const DimExpr& other, int64_t factor = 1) const;
  std::optional<DimExpr> Times(int64_t factor) const { return DimExpr().Plus(*this, factor); }
  // Exact division by a constant; nullopt when it does not divide every coefficient.
  std::optional<DimExpr> DividedBy(int64_t divisor) const;

  bool operator==(const DimExpr&) const = default;
  auto operator<=>(const DimExpr&) const = default;

 private:
  int64_t constant_ = 0;
  std::map<DimTerm, int64_t> terms_;
};

using DimExprs = std::vector<DimExpr>;

}  // namespace weft::onnx
