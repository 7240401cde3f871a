// What tracing (trace_layer.h) knows of an ONNX value when a layer is run on a small made-up batch:
// the numbers themselves where they depend on positions and lengths alone, and for what depends on
// the hidden state, which elements of which buffer each element is made of.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "onnx/graph.h"

namespace weft::lower::trace {

using Dims = std::vector<int64_t>;

// More elements than any tensor that is traced has.
inline constexpr int64_t kTooMany = int64_t{1} << 48;

// Most elements of a value that are looked at, computed or moved one by one.
inline constexpr int64_t kMaxElements = int64_t{1} << 24;

// The number of elements; kTooMany when they are more, 0 where a dimension is not known.
inline int64_t CountOf(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0) return 0;
    count = count > kTooMany / dim ? kTooMany : count * dim;
  }
  return count;
}

// A number as an integer; what is none or beyond int64 becomes the nearest, NaN 0.
inline int64_t ToInteger(double number) {
  if (number >= 9.2e18) return std::numeric_limits<int64_t>::max();
  if (number <= -9.2e18) return std::numeric_limits<int64_t>::min();
  return number == number ? static_cast<int64_t>(number) : 0;
}

// An element of a source: a buffer [rows, columns] or a cache [kv_heads, past, head_columns].
struct ElementId {
  int32_t source = -1;  // -1: none
  int32_t index = 0;    // row-major
  bool operator==(const ElementId&) const = default;
};

// ca * a + cb * b. Terms keep their element when their factor is 0, so that a rotation by angle 0
// still tells what is paired with what.
struct Form {
  ElementId a, b;
  double ca = 0, cb = 0;
  bool operator==(const Form&) const = default;
};

enum class Kind {
  kNumbers,        // `numbers`
  kInitializer,    // a constant of the graph whose bytes were not read
  kShape,          // only `dims` are known
  kTokens,         // input_ids
  kForms,          // `forms`
  kPointwise,      // of each element of `base` (kForms, kScores or kMeanSquare): `samples`
  kMeanSquare,     // of `base`'s last axis, which is kept with extent 1
  kNormed,         // base / sqrt(mean of squares of base's last axis + epsilon)
  kScores,         // base (queries) times `other` (keys transposed)
  kMasked,         // a function of scores (`base`, kPointwise) where `allowed` has 1
  kProbabilities,  // softmax of `base` (kMasked, kPointwise or kScores)
  kRouter,         // softmax over the last axis of `base`, the logits of experts
  kRouteSum,       // sum over the last axis of `base`, weights of chosen experts
  kExperts,        // rows of `initializer` chosen by `base`, indices of experts
  kPresent,        // the cache after the step, as the attention operation keeps it
};

struct Value;
using ValuePtr = std::shared_ptr<const Value>;

struct Value {
  Kind kind = Kind::kShape;
  Dims dims;
  onnx::ElementType type = onnx::ElementType::kFloat;
  std::vector<double> numbers;  // float32 results are rounded to float32
  std::vector<Form> forms;
  std::vector<double> samples;  // at SampleInputs(base kind)
  ValuePtr base, other;
  double epsilon = 0;
  std::vector<uint8_t> allowed;  // [rows, total]
  // kInitializer: the tensor, and whether `dims` are its own with the two of them exchanged.
  std::string initializer;
  bool transposed = false;
  // kShape and kPresent: the cache input that this is, or is made from, times `factor`.
  std::string cache;
  double factor = 1;
};

}  // namespace weft::lower::trace
