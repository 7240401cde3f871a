#include "lower/trace/numeric.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace weft::lower::trace {
namespace {

using onnx::ElementType;
using onnx::Node;
using Unary = std::function<double(double)>;
using Binary = std::function<double(double, double)>;

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kGeluInner = 0.79788456080286535588;  // sqrt(2 / pi)

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double Gelu(double x) {
  return 0.5 * x * (1 + std::erf(x * kSqrtHalf));
}
double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluInner * (x + 0.044715 * x * x * x)));
}

const std::map<std::string_view, double (*)(double)>& StandardUnaries() {
  static const std::map<std::string_view, double (*)(double)> table = {
      {"Abs", [](double x) { return std::fabs(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"IsNaN", [](double x) { return std::isnan(x) ? 1.0 : 0.0; }},
      {"Log", [](double x) { return std::log(x); }},
      {"Neg", [](double x) { return -x; }},
      {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Relu", [](double x) { return std::max(x, 0.0); }},
      {"Sigmoid", Sigmoid},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
  };
  return table;
}

const std::map<std::string_view, double (*)(double, double)>& StandardBinaries() {
  static const std::map<std::string_view, double (*)(double, double)> table = {
      {"Add", [](double a, double b) { return a + b; }},
      {"And", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
      {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"GreaterOrEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
      {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"LessOrEqual", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"Max", [](double a, double b) { return std::max(a, b); }},
      {"Min", [](double a, double b) { return std::min(a, b); }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
      {"Pow", [](double a, double b) { return std::pow(a, b); }},
      {"Sub", [](double a, double b) { return a - b; }},
  };
  return table;
}

std::optional<Value> Range(const std::vector<ValuePtr>& in) {
  if (in.size() != 3) return std::nullopt;
  for (const ValuePtr& value : in) {
    if (!value || value->numbers.size() != 1) return std::nullopt;
  }
  const double start = in[0]->numbers[0], limit = in[1]->numbers[0], delta = in[2]->numbers[0];
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count <= static_cast<double>(kMaxElements))) return std::nullopt;
  Value out{.kind = Kind::kNumbers, .dims = {ToInteger(count)}, .type = in[0]->type};
  for (int64_t i = 0; i < out.dims[0]; ++i) {
    out.numbers.push_back(RoundTo(out.type, start + static_cast<double>(i) * delta));
  }
  return out;
}

std::optional<Value> ConstantOfShape(const Node& node, const std::vector<ValuePtr>& in) {
  Value out{.kind = Kind::kNumbers};
  for (const double dim : in[0]->numbers) {
    out.dims.push_back(ToInteger(dim));
    if (out.dims.back() < 0) return std::nullopt;
    if (CountOf(out.dims) > kMaxElements) return std::nullopt;
  }
  double fill = 0;
  if (const onnx::Tensor* value = node.TensorAttribute("value")) {
    const auto values = value->AsFloats();
    if (!values || values->size() != 1) return std::nullopt;
    fill = (*values)[0];
    out.type = value->type;
  }
  out.numbers.assign(static_cast<size_t>(CountOf(out.dims)), fill);
  return out;
}

// [.., M, K] times [.., K, N]; leading axes broadcast.
std::optional<Value> MatMul(const Value& a, const Value& b) {
  if (a.dims.size() < 2 || b.dims.size() < 2) return std::nullopt;
  const int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  if (b.dims[b.dims.size() - 2] != k) return std::nullopt;
  const Dims a_lead(a.dims.begin(), a.dims.end() - 2), b_lead(b.dims.begin(), b.dims.end() - 2);
  const auto lead = BroadcastDims(a_lead, b_lead);
  if (!lead || CountOf({CountOf(*lead), m, n}) > kMaxElements || k > kMaxElements) {
    return std::nullopt;
  }
  Value out{.kind = Kind::kNumbers, .dims = *lead, .type = a.type};
  out.dims.insert(out.dims.end(), {m, n});
  for (size_t batch = 0; batch < static_cast<size_t>(CountOf(*lead)); ++batch) {
    const double* x =
        a.numbers.data() + BroadcastIndex(batch, *lead, a_lead) * static_cast<size_t>(m * k);
    const double* y =
        b.numbers.data() + BroadcastIndex(batch, *lead, b_lead) * static_cast<size_t>(k * n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < k; ++c) sum += x[i * k + c] * y[c * n + j];
        out.numbers.push_back(RoundTo(out.type, sum));
      }
    }
  }
  return out;
}

std::optional<std::vector<size_t>> Axes(const Node& node, const std::vector<ValuePtr>& in,
                                        size_t rank) {
  std::vector<int64_t> axes = node.Ints("axes");
  if (in.size() > 1 && in[1]) {
    for (const double axis : in[1]->numbers) axes.push_back(ToInteger(axis));
  }
  std::vector<size_t> out;
  for (const int64_t axis : axes) {
    const int64_t positive = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
    if (positive < 0 || positive >= static_cast<int64_t>(rank)) return std::nullopt;
    out.push_back(static_cast<size_t>(positive));
  }
  if (axes.empty()) {
    for (size_t i = 0; i < rank; ++i) out.push_back(i);
  }
  return out;
}

// Sum, mean or maximum over `axes` (all when none are given): each input element is added to the
// element of the output that it would be broadcast from.
std::optional<Value> Reduce(const Node& node, const std::vector<ValuePtr>& in) {
  const Value& x = *in[0];
  const auto axes = Axes(node, in, x.dims.size());
  if (!axes) return std::nullopt;
  Dims kept = x.dims;
  for (const size_t axis : *axes) kept[axis] = 1;
  Value out{.kind = Kind::kNumbers, .dims = kept, .type = x.type};
  out.numbers.assign(static_cast<size_t>(CountOf(kept)), 0);
  std::vector<bool> seen(out.numbers.size(), false);
  for (size_t i = 0; i < x.numbers.size(); ++i) {
    const size_t to = BroadcastIndex(i, x.dims, kept);
    double& sum = out.numbers[to];
    sum = node.Is("ReduceMax") && seen[to] ? std::max(sum, x.numbers[i])
          : node.Is("ReduceMax")           ? x.numbers[i]
                                           : sum + x.numbers[i];
    seen[to] = true;
  }
  if (node.Is("ReduceMean")) {
    const auto each = static_cast<double>(x.numbers.size()) / static_cast<double>(seen.size());
    for (double& sum : out.numbers) sum /= each;
  }
  for (double& sum : out.numbers) sum = RoundTo(out.type, sum);
  if (node.Int("keepdims", 1) != 0) return out;
  Dims dims;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (std::find(axes->begin(), axes->end(), i) == axes->end()) dims.push_back(x.dims[i]);
  }
  out.dims = std::move(dims);
  return out;
}

std::optional<Value> Where(const std::vector<ValuePtr>& in) {
  auto dims = BroadcastDims(in[1]->dims, in[2]->dims);
  if (dims) dims = BroadcastDims(*dims, in[0]->dims);
  if (!dims || CountOf(*dims) > kMaxElements) return std::nullopt;
  Value out{.kind = Kind::kNumbers, .dims = *dims, .type = in[1]->type};
  for (size_t i = 0; i < static_cast<size_t>(CountOf(*dims)); ++i) {
    const bool first = in[0]->numbers[BroadcastIndex(i, *dims, in[0]->dims)] != 0;
    const Value& from = first ? *in[1] : *in[2];
    out.numbers.push_back(from.numbers[BroadcastIndex(i, *dims, from.dims)]);
  }
  return out;
}

std::optional<Value> CumSum(const Node& node, const std::vector<ValuePtr>& in) {
  if (in.size() < 2 || !in[1] || in[1]->numbers.size() != 1 || node.Int("reverse", 0) != 0) {
    return std::nullopt;
  }
  Value out = *in[0];
  const auto rank = static_cast<int64_t>(out.dims.size());
  int64_t axis = ToInteger(in[1]->numbers[0]);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  int64_t stride = 1;
  for (int64_t i = axis + 1; i < rank; ++i) stride *= out.dims[static_cast<size_t>(i)];
  const int64_t extent = out.dims[static_cast<size_t>(axis)];
  for (size_t i = 0; i < out.numbers.size(); ++i) {
    const auto place = static_cast<int64_t>(i) / stride % extent;
    if (place > 0) out.numbers[i] += out.numbers[i - static_cast<size_t>(stride)];
  }
  if (node.Int("exclusive", 0) != 0) {
    for (size_t i = 0; i < out.numbers.size(); ++i) out.numbers[i] -= in[0]->numbers[i];
  }
  return out;
}

std::optional<Value> Trilu(const Node& node, const std::vector<ValuePtr>& in) {
  Value out = *in[0];
  if (out.dims.size() < 2 || (in.size() > 1 && in[1] && in[1]->numbers.size() != 1)) {
    return std::nullopt;
  }
  const int64_t columns = out.dims.back(), rows = out.dims[out.dims.size() - 2];
  const auto k = in.size() > 1 && in[1] ? ToInteger(in[1]->numbers[0]) : int64_t{0};
  const bool upper = node.Int("upper", 1) != 0;
  for (size_t i = 0; i < out.numbers.size(); ++i) {
    const auto flat = static_cast<int64_t>(i);
    const int64_t row = flat / columns % rows, column = flat % columns;
    if (upper ? column - row < k : column - row > k) out.numbers[i] = 0;
  }
  return out;
}

// What stands in `values` {off, on} where an index is, along a new last axis.
std::optional<Value> OneHot(const Node& node, const std::vector<ValuePtr>& in) {
  if (in.size() != 3 || !in[1] || !in[2] || in[1]->numbers.size() != 1 ||
      in[2]->numbers.size() != 2 || node.Int("axis", -1) != -1) {
    return std::nullopt;
  }
  const int64_t depth = ToInteger(in[1]->numbers[0]);
  if (depth < 0 || CountOf({CountOf(in[0]->dims), depth}) > kMaxElements) return std::nullopt;
  Value out{.kind = Kind::kNumbers, .dims = in[0]->dims, .type = in[2]->type};
  out.dims.push_back(depth);
  for (const double index : in[0]->numbers) {
    const int64_t place = index < 0 ? ToInteger(index) + depth : ToInteger(index);
    for (int64_t i = 0; i < depth; ++i) out.numbers.push_back(in[2]->numbers[i == place ? 1 : 0]);
  }
  return out;
}

}  // namespace

std::function<double(double)> UnaryFunction(const Node& node) {
  if (node.IsMicrosoft("QuickGelu")) {
    const double alpha = static_cast<double>(node.Float("alpha", 1.702f));
    return [alpha](double x) { return x * Sigmoid(alpha * x); };
  }
  if (node.IsMicrosoft("Gelu")) return Gelu;
  if (node.IsMicrosoft("FastGelu") && !node.HasInput(1)) return GeluTanh;
  if (!node.domain.empty()) return nullptr;
  if (node.Is("Gelu")) return node.String("approximate", "none") == "tanh" ? GeluTanh : Gelu;
  const auto found = StandardUnaries().find(node.op_type);
  return found == StandardUnaries().end() ? Unary() : Unary(found->second);
}

std::function<double(double, double)> BinaryFunction(const Node& node, bool integers) {
  if (!node.domain.empty()) return nullptr;
  if (node.Is("Div")) {
    if (integers) return [](double a, double b) { return std::trunc(a / b); };
    return [](double a, double b) { return a / b; };
  }
  if (node.Is("Mod")) {
    if (node.Int("fmod", 0) != 0) return [](double a, double b) { return std::fmod(a, b); };
    return [](double a, double b) { return a - std::floor(a / b) * b; };
  }
  const auto found = StandardBinaries().find(node.op_type);
  return found == StandardBinaries().end() ? Binary() : Binary(found->second);
}

bool IsComparison(const Node& node) {
  return node.Is("Equal") || node.Is("Greater") || node.Is("GreaterOrEqual") || node.Is("Less") ||
         node.Is("LessOrEqual") || node.Is("And") || node.Is("Or") || node.Is("Not") ||
         node.Is("IsNaN");
}

// Masks and angles are compared with what a runtime computes in float32, where 1 - mask times the
// lowest float is exactly -3.4e38 and a position above 2^24 has no successor; in double they would
// be other numbers.
double RoundTo(ElementType type, double value) {
  return onnx::IsFloatType(type) && type != ElementType::kDouble
             ? static_cast<double>(static_cast<float>(value))
             : value;
}

std::optional<Dims> BroadcastDims(const Dims& a, const Dims& b) {
  auto out = onnx::BroadcastShape(a, b);
  if (out && CountOf(*out) >= kTooMany) out.reset();
  return out;
}

std::optional<Value> EvaluateNumbers(const Node& node, const std::vector<ValuePtr>& inputs) {
  if (!node.domain.empty() || inputs.empty() || !inputs[0]) return std::nullopt;
  if (node.Is("Range")) return Range(inputs);
  if (node.Is("ConstantOfShape")) return ConstantOfShape(node, inputs);
  if (node.Is("MatMul") && inputs.size() == 2) return MatMul(*inputs[0], *inputs[1]);
  if (node.Is("ReduceSum") || node.Is("ReduceMean") || node.Is("ReduceMax")) {
    return Reduce(node, inputs);
  }
  if (node.Is("Where") && inputs.size() == 3 && inputs[1] && inputs[2]) return Where(inputs);
  if (node.Is("CumSum")) return CumSum(node, inputs);
  if (node.Is("Trilu")) return Trilu(node, inputs);
  if (node.Is("OneHot")) return OneHot(node, inputs);
  return std::nullopt;
}

}  // namespace weft::lower::trace
