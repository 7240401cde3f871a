// Operators on each element alone: arithmetic of known numbers, of forms, and of functions.
#include <cmath>

#include "lower/refuse.h"
#include "lower/trace/numeric.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::ElementType;
using onnx::Node;
using Function = std::function<double(double, double)>;

bool IsScalar(const ValuePtr& value) {
  return value->kind == Kind::kNumbers && value->numbers.size() == 1;
}

ElementType ResultType(const Node& node, const ValuePtr& operand) {
  return IsComparison(node) ? ElementType::kBool : operand->type;
}

bool IsInteger(ElementType type) {
  return !onnx::IsFloatType(type) && type != ElementType::kBool;
}

Outputs Numeric(const Node& node, const Function& function, const Value& a, const Value& b,
                const ElementType type) {
  const auto dims = BroadcastDims(a.dims, b.dims);
  if (!dims || CountOf(*dims) > kMaxElements) {
    return Refuse(node, "combines shapes that do not broadcast, or to too many elements");
  }
  std::vector<double> numbers;
  for (size_t i = 0; i < static_cast<size_t>(CountOf(*dims)); ++i) {
    numbers.push_back(RoundTo(type, function(a.numbers[BroadcastIndex(i, *dims, a.dims)],
                                             b.numbers[BroadcastIndex(i, *dims, b.dims)])));
  }
  return Values{MakeNumbers(*dims, type, std::move(numbers))};
}

// Only shapes are known of one operand; a constant factor is kept.
Outputs Bare(const Node& node, const ValuePtr& a, const ValuePtr& b) {
  const auto dims = BroadcastDims(a->dims, b->dims);
  if (!dims) return Refuse(node, "combines shapes that do not broadcast");
  Value out{.kind = Kind::kShape, .dims = *dims};
  const ValuePtr &bare = a->kind == Kind::kShape ? a : b, &other = bare == a ? b : a;
  const bool product = node.Is("Mul") || (node.Is("Div") && bare == a);
  if (product && IsScalar(other) && !bare->cache.empty()) {
    out.cache = bare->cache;
    out.factor = bare->factor * (node.Is("Mul") ? other->numbers[0] : 1 / other->numbers[0]);
  }
  return Values{MakeValue(std::move(out))};
}

// A linear function of forms stays forms.
std::optional<ValuePtr> ScaleForms(const Node& node, const ValuePtr& forms, const ValuePtr& by) {
  if (forms->kind != Kind::kForms || by->kind != Kind::kNumbers) return std::nullopt;
  if (!node.Is("Mul") && !node.Is("Div")) return std::nullopt;
  const auto dims = BroadcastDims(forms->dims, by->dims);
  if (!dims || *dims != forms->dims) return std::nullopt;
  Value out = *forms;
  for (size_t i = 0; i < out.forms.size(); ++i) {
    const double number = by->numbers[BroadcastIndex(i, *dims, by->dims)];
    const double factor = node.Is("Mul") ? number : 1 / number;
    out.forms[i].ca *= factor;
    out.forms[i].cb *= factor;
  }
  return MakeValue(std::move(out));
}

// a + b where both are made of elements of the same source.
std::optional<ValuePtr> AddForms(const Node& node, const ValuePtr& a, const ValuePtr& b) {
  if (a->dims != b->dims || a->forms.empty()) return std::nullopt;
  const double sign = node.Is("Sub") ? -1 : 1;
  Value out = *a;
  for (size_t i = 0; i < out.forms.size(); ++i) {
    Form& form = out.forms[i];
    const Form& other = b->forms[i];
    if (form.b.source >= 0 || other.b.source >= 0 || form.a.source != other.a.source ||
        form.a.source < 0) {
      return std::nullopt;
    }
    if (form.a == other.a) {
      form.ca += sign * other.ca;
    } else {
      form.b = other.a;
      form.cb = sign * other.ca;
    }
  }
  return MakeValue(std::move(out));
}

// Functions of the same base; forms count as multiples of it.
std::optional<std::vector<double>> SamplesOver(const ValuePtr& value, const ValuePtr& base) {
  if (value->kind == Kind::kPointwise &&
      (value->base == base || (value->base->kind == Kind::kForms && base->kind == Kind::kForms &&
                               value->base->forms == base->forms))) {
    return value->samples;
  }
  if (value == base) return SampleInputs(base->kind);
  if (value->kind != Kind::kForms || base->kind != Kind::kForms) return std::nullopt;
  const auto factor = Multiple(value->forms, base->forms);
  if (!factor) return std::nullopt;
  std::vector<double> samples = SampleInputs(base->kind);
  for (double& sample : samples) sample *= *factor;
  return samples;
}

ValuePtr WithSamples(const ValuePtr& like, std::vector<double> samples) {
  return MakeValue({.kind = Kind::kPointwise,
                    .dims = like->dims,
                    .samples = std::move(samples),
                    .base = like->kind == Kind::kPointwise ? like->base : like});
}

std::optional<ValuePtr> Combine(const Function& function, const ValuePtr& a, const ValuePtr& b) {
  const ValuePtr shaped = IsScalar(a) ? b : a;
  const ValuePtr base = shaped->kind == Kind::kPointwise ? shaped->base : shaped;
  if (base->kind != Kind::kForms && base->kind != Kind::kScores &&
      base->kind != Kind::kMeanSquare) {
    return std::nullopt;
  }
  const size_t count = SampleInputs(base->kind).size();
  const auto samples = [&](const ValuePtr& value) -> std::optional<std::vector<double>> {
    if (IsScalar(value)) return std::vector<double>(count, value->numbers[0]);
    return SamplesOver(value, base);
  };
  // A pointwise value may stand on the other side of forms that are its base.
  auto x = samples(a), y = samples(b);
  if ((!x || !y) && b->kind == Kind::kPointwise && a->kind == Kind::kForms) {
    x = SamplesOver(a, b->base);
    y = b->samples;
    if (!x) return std::nullopt;
    std::vector<double> out;
    for (size_t i = 0; i < y->size(); ++i) out.push_back(function((*x)[i], (*y)[i]));
    return WithSamples(b, std::move(out));
  }
  if (!x || !y) return std::nullopt;
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i) out.push_back(function((*x)[i], (*y)[i]));
  return WithSamples(shaped, std::move(out));
}

// x times (or divided by) a function of the mean of its squares.
std::optional<ValuePtr> AsNormed(const Node& node, const ValuePtr& x, const ValuePtr& root) {
  if (root->kind != Kind::kPointwise || root->base->kind != Kind::kMeanSquare ||
      x->kind != Kind::kForms || x->forms != root->base->base->forms) {
    return std::nullopt;
  }
  std::vector<double> samples = root->samples;
  if (node.Is("Div")) {
    for (double& sample : samples) sample = 1 / sample;
  }
  const auto epsilon = AsInverseRoot(samples);
  if (!epsilon) return std::nullopt;
  return MakeValue({.kind = Kind::kNormed, .dims = x->dims, .base = x, .epsilon = *epsilon});
}

// activation(gate) * up
Result<std::optional<ValuePtr>> AsGated(Tracer& tracer, const Node& node, const ValuePtr& gate,
                                        const ValuePtr& up) {
  if (gate->kind != Kind::kPointwise || gate->base->kind != Kind::kForms ||
      up->kind != Kind::kForms) {
    return std::optional<ValuePtr>();
  }
  const auto activation = AsActivation(gate->samples);
  if (!activation) return std::optional<ValuePtr>();
  if (ValuePtr chosen = GateChoices(tracer, gate->base, up, *activation)) {
    return std::optional<ValuePtr>(std::move(chosen));
  }
  ASSIGN_OR_RETURN(const View gate_view, tracer.Rows(node, gate->base));
  ASSIGN_OR_RETURN(const View up_view, tracer.Rows(node, up));
  if (gate_view.columns != up_view.columns) return Refuse(node, "multiplies unequal columns");
  const View out = tracer.NewBuffer(node.Output(0), gate_view.columns);
  tracer.program().ops.push_back(GatedActivation{gate_view, up_view, out, *activation});
  return std::optional<ValuePtr>(tracer.RowsOf(out, up->dims));
}

Outputs Product(Tracer& tracer, const Node& node, const ValuePtr& a, const ValuePtr& b) {
  if (auto routed = RouteProduct(tracer, node, a, b)) return *std::move(routed);
  if (auto normed = AsNormed(node, a, b)) return Values{*normed};
  if (node.Is("Mul")) {
    if (auto normed = AsNormed(node, b, a)) return Values{*normed};
    for (const auto& [gate, up] : {std::pair(a, b), std::pair(b, a)}) {
      ASSIGN_OR_RETURN(auto gated, AsGated(tracer, node, gate, up));
      if (gated) return Values{*gated};
    }
  }
  return Refuse(node, "is a product that no operation of a program stands for");
}

Outputs Sum(Tracer& tracer, const Node& node, const ValuePtr& a, const ValuePtr& b) {
  if (auto forms = AddForms(node, a, b)) return Values{*forms};
  if (!node.Is("Add") || a->dims != b->dims) {
    return Refuse(node, "is a sum that no operation of a program stands for");
  }
  ASSIGN_OR_RETURN(const View x, tracer.Rows(node, a));
  ASSIGN_OR_RETURN(const View y, tracer.Rows(node, b));
  const View out = tracer.NewBuffer(node.Output(0), x.columns);
  tracer.program().ops.push_back(Add{x, y, out});
  return Values{tracer.RowsOf(out, a->dims)};
}

// One operand is a tensor of numbers.
Outputs WithNumbers(Tracer& tracer, const Node& node, const ValuePtr& x, const ValuePtr& numbers,
                    bool numbers_first) {
  const bool commutes = node.Is("Add") || node.Is("Mul");
  if (x->kind == Kind::kNormed && node.Is("Mul")) {
    ASSIGN_OR_RETURN(const auto weight, tracer.VectorOf(node, numbers, x->dims.back()));
    ASSIGN_OR_RETURN(ValuePtr normed, tracer.EmitNorm(node, x->base, weight, x->epsilon));
    return Values{std::move(normed)};
  }
  if (AsPointwise(x) != nullptr && AsPointwise(x)->base->kind == Kind::kScores && node.Is("Add")) {
    ASSIGN_OR_RETURN(ValuePtr masked, Mask(tracer, node, x, numbers, true));
    return Values{std::move(masked)};
  }
  ASSIGN_OR_RETURN(const ValuePtr settled, tracer.Settle(node, x));
  if (commutes || !numbers_first) {
    if (auto scaled = ScaleForms(node, settled, numbers)) return Values{*scaled};
  }
  if (node.Is("Add")) {
    if (auto biased = AddBias(tracer, node, settled, numbers)) return *std::move(biased);
  }
  return Refuse(node, "combines a hidden value and a constant in a way that no operation does");
}

}  // namespace

ValuePtr AsPointwise(const ValuePtr& value) {
  if (value->kind == Kind::kPointwise) return value;
  if (value->kind != Kind::kForms && value->kind != Kind::kScores &&
      value->kind != Kind::kMeanSquare) {
    return nullptr;
  }
  return WithSamples(value, SampleInputs(value->kind));
}

Outputs RunUnary(Tracer& tracer, const Node& node, const Values& in) {
  const auto function = UnaryFunction(node);
  if (const ValuePtr numbers = tracer.NumbersOf(in[0])) {
    std::vector<double> out;
    const ElementType type = ResultType(node, numbers);
    for (const double x : numbers->numbers) out.push_back(RoundTo(type, function(x)));
    return Values{MakeNumbers(numbers->dims, type, std::move(out))};
  }
  if (node.Is("IsNaN")) {  // finite inputs and masks that let every row see itself
    return Values{MakeNumbers(Dims(in[0]->dims.size(), 1), ElementType::kBool, {0})};
  }
  if (in[0]->kind == Kind::kShape) return Values{in[0]};
  if (node.Is("Neg") && in[0]->kind == Kind::kForms) {
    Value out = *in[0];
    for (Form& form : out.forms) {
      form.ca = -form.ca;
      form.cb = -form.cb;
    }
    return Values{MakeValue(std::move(out))};
  }
  ValuePtr x = in[0];
  if (x->kind == Kind::kNormed) {
    ASSIGN_OR_RETURN(x, tracer.Settle(node, x));
  }
  const ValuePtr pointwise = AsPointwise(x);
  if (pointwise == nullptr) return Refuse(node, "is a function of what is no hidden value");
  std::vector<double> samples = pointwise->samples;
  for (double& sample : samples) sample = function(sample);
  return Values{WithSamples(pointwise, std::move(samples))};
}

Outputs RunBinary(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() != 2 || !in[1]) return Refuse(node, "does not have two operands");
  ValuePtr a = in[0], b = in[1];
  for (ValuePtr* side : {&a, &b}) {
    if ((*side)->kind == Kind::kInitializer) *side = tracer.NumbersOf(*side);
    if (*side == nullptr) return Refuse(node, "reads a constant that is too large to look into");
  }
  const bool a_numbers = a->kind == Kind::kNumbers, b_numbers = b->kind == Kind::kNumbers;
  const Function function =
      BinaryFunction(node, a_numbers && b_numbers && IsInteger(a->type) && IsInteger(b->type));
  if (a_numbers && b_numbers) return Numeric(node, function, *a, *b, ResultType(node, a));
  if (a->kind == Kind::kShape || b->kind == Kind::kShape) return Bare(node, a, b);
  if (IsScalar(b) || (IsScalar(a) && node.Is("Mul"))) {
    const ValuePtr &x = IsScalar(b) ? a : b, &by = IsScalar(b) ? b : a;
    if (auto scaled = ScaleForms(node, x, by)) return Values{*scaled};
  }
  if (auto combined = Combine(function, a, b)) return Values{*combined};
  if (b_numbers) return WithNumbers(tracer, node, a, b, false);
  if (a_numbers) return WithNumbers(tracer, node, b, a, true);
  if (node.Is("Mul") || node.Is("Div")) {
    for (ValuePtr* side : {&a, &b}) {
      if ((*side)->kind != Kind::kNormed) continue;
      ASSIGN_OR_RETURN(*side, tracer.Settle(node, *side));
    }
    return Product(tracer, node, a, b);
  }
  ASSIGN_OR_RETURN(a, tracer.Settle(node, a));
  ASSIGN_OR_RETURN(b, tracer.Settle(node, b));
  if (a->kind != Kind::kForms || b->kind != Kind::kForms) {
    return Refuse(node, "combines values that no operation of a program combines");
  }
  return Sum(tracer, node, a, b);
}

Outputs RunCast(Tracer& tracer, const Node& node, const Values& in) {
  const auto to = node.Is("Cast") ? static_cast<ElementType>(node.Int("to", 0)) : in[0]->type;
  if (!IsConstant(in[0])) {
    if (!onnx::IsFloatType(to) && in[0]->kind != Kind::kTokens && !tracer.ChoicesOf(in[0])) {
      return Refuse(node, "casts a hidden value to integers");
    }
    return Values{in[0]};
  }
  if (onnx::IsFloatType(to) && onnx::IsFloatType(in[0]->type)) return Values{in[0]};
  if (to == in[0]->type) return Values{in[0]};
  const ValuePtr numbers = tracer.NumbersOf(in[0]);
  if (numbers == nullptr) return Refuse(node, "casts a constant that is too large to look into");
  std::vector<double> out = numbers->numbers;
  for (double& number : out) {
    if (to == ElementType::kBool) {
      number = number != 0 ? 1 : 0;
    } else if (IsInteger(to)) {
      number = std::trunc(number);
    } else {
      number = RoundTo(to, number);
    }
  }
  return Values{MakeNumbers(numbers->dims, to, std::move(out))};
}

Outputs RunWhere(Tracer& tracer, const Node& node, const Values& in) {
  if (in.size() != 3 || !in[0] || !in[1] || !in[2]) return Refuse(node, "lacks an operand");
  const Values numbers = {tracer.NumbersOf(in[0]), tracer.NumbersOf(in[1]),
                          tracer.NumbersOf(in[2])};
  if (numbers[0] != nullptr && numbers[1] != nullptr && numbers[2] != nullptr) {
    return RunNumbers(tracer, node, in);
  }
  if (numbers[0] == nullptr) return Refuse(node, "chooses by a hidden value");
  bool all = true, none = true;
  for (const double number : numbers[0]->numbers) {
    all &= number != 0;
    none &= number == 0;
  }
  // A choice that always falls on one side.
  if (all && BroadcastDims(in[0]->dims, in[1]->dims) == in[1]->dims) return Values{in[1]};
  if (none && BroadcastDims(in[0]->dims, in[2]->dims) == in[2]->dims) return Values{in[2]};
  const bool scores_first = numbers[2] != nullptr && numbers[2]->numbers.size() == 1;
  const bool scores_last = numbers[1] != nullptr && numbers[1]->numbers.size() == 1;
  if (scores_first == scores_last) return Refuse(node, "is no mask of scores");
  const double fill = scores_first ? numbers[2]->numbers[0] : numbers[1]->numbers[0];
  if (!(fill <= -1e4)) return Refuse(node, "masks scores with " + std::to_string(fill));
  ValuePtr mask = numbers[0];
  if (scores_last) {
    Value inverse = *mask;
    for (double& number : inverse.numbers) number = number == 0 ? 1 : 0;
    mask = MakeValue(std::move(inverse));
  }
  ASSIGN_OR_RETURN(ValuePtr masked, Mask(tracer, node, scores_first ? in[1] : in[2], mask, false));
  return Values{std::move(masked)};
}

}  // namespace weft::lower::trace
