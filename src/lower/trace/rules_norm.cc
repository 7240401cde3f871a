// RMS norms: fused, with a residual sum, or spelt out.
#include <cmath>

#include "lower/refuse.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::Node;

bool IsLastAxis(int64_t axis, size_t rank) {
  return axis == -1 || axis == static_cast<int64_t>(rank) - 1;
}

Result<ValuePtr> FusedNorm(Tracer& tracer, const Node& node, const ValuePtr& x,
                           const ValuePtr& weight, float epsilon) {
  if (x->dims.empty() || !IsLastAxis(node.Int("axis", -1), x->dims.size())) {
    return Refuse(node, "normalises other axes than the last");
  }
  ASSIGN_OR_RETURN(const auto values, tracer.VectorOf(node, weight, x->dims.back()));
  return tracer.EmitNorm(node, x, values, static_cast<double>(epsilon));
}

}  // namespace

Outputs RunRmsNorm(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() < 2 || !in[0] || !in[1]) return Refuse(node, "lacks an operand");
  if (node.HasOutput(1)) return Refuse(node, "gives out its statistics");
  ASSIGN_OR_RETURN(ValuePtr out,
                   FusedNorm(tracer, node, in[0], in[1], node.Float("epsilon", 1e-5f)));
  return Values{std::move(out)};
}

Outputs RunSkipRmsNorm(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() < 3 || !in[0] || !in[1] || !in[2] || node.HasOutput(1) || node.HasOutput(2)) {
    return Refuse(node, "has operands or outputs that weft does not know");
  }
  ValuePtr skip = in[1];
  if (node.HasInput(3)) {
    auto biased = AddBias(tracer, node, skip, tracer.NumbersOf(in[3]));
    if (!biased) return Refuse(node, "adds a bias to what is no product");
    ASSIGN_OR_RETURN(const Values values, *std::move(biased));
    skip = values[0];
  }
  ASSIGN_OR_RETURN(const View a, tracer.Rows(node, in[0]));
  ASSIGN_OR_RETURN(const View b, tracer.Rows(node, skip));
  if (a.columns != b.columns) return Refuse(node, "adds unequal columns");
  const View sum_view = tracer.NewBuffer(std::string(node.Output(0)) + ".sum", a.columns);
  tracer.program().ops.push_back(Add{a, b, sum_view});
  const ValuePtr sum = tracer.RowsOf(sum_view, in[0]->dims);
  ASSIGN_OR_RETURN(ValuePtr out,
                   FusedNorm(tracer, node, sum, in[2], node.Float("epsilon", 1e-12f)));
  return Values{std::move(out), nullptr, nullptr, sum};
}

Outputs RunReduceMean(Tracer& tracer, const Node& node, const Values& in) {
  if (IsConstant(in[0])) return RunNumbers(tracer, node, in);
  std::vector<int64_t> axes = node.Ints("axes");
  if (in.size() > 1 && in[1]) {
    const ValuePtr numbers = tracer.NumbersOf(in[1]);
    if (numbers == nullptr) return Refuse(node, "has axes that are not constant");
    for (const double axis : numbers->numbers) axes.push_back(ToInteger(axis));
  }
  const bool of_squares = in[0]->kind == Kind::kPointwise && in[0]->base->kind == Kind::kForms &&
                          IsSquare(in[0]->samples);
  if (!of_squares || axes.size() != 1 || !IsLastAxis(axes[0], in[0]->dims.size()) ||
      node.Int("keepdims", 1) == 0) {
    return Refuse(node, "is no mean of squares over the last axis");
  }
  Dims dims = in[0]->dims;
  dims.back() = 1;
  return Values{
      MakeValue({.kind = Kind::kMeanSquare, .dims = std::move(dims), .base = in[0]->base})};
}

}  // namespace weft::lower::trace
