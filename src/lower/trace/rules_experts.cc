// Mixtures of experts: com.microsoft MoE and QMoE, and the form that exporters spell out as TopK,
// Gather of the chosen experts' matrices, batched products and a weighted sum.
#include <algorithm>
#include <cmath>

#include "lower/refuse.h"
#include "lower/trace/rules.h"

namespace weft::lower::trace {
namespace {

using onnx::Node;
using onnx::Tensor;
using Role = Choices::Role;

constexpr int64_t kMaxExperts = 1 << 12;

// A constant [experts, rows, columns] of floats as a weight; `transposed`: [experts, columns,
// rows].
Result<WeightId> FloatExperts(Tracer& tracer, const Node& node, const ValuePtr& value,
                              bool transposed, bool interleaved) {
  const Tensor* tensor = value->kind == Kind::kInitializer && !value->transposed
                             ? tracer.graph().FindInitializer(value->initializer)
                             : nullptr;
  const auto dtype = tensor == nullptr ? std::nullopt : onnx::ToDType(tensor->type);
  if (!dtype || !onnx::IsFloatType(tensor->type) || value->dims.size() != 3 ||
      tensor->dims != value->dims) {
    return Refuse(node, "has experts that are no constant [experts, rows, columns] of floats");
  }
  WeightRecipe recipe{
      .form = transposed ? WeightRecipe::Form::kTransposed : WeightRecipe::Form::kPlain,
      .data = value->initializer,
      .interleaved = interleaved,
      .values = {}};
  const auto dim = [&](size_t i) { return static_cast<uint64_t>(value->dims[i]); };
  Weight weight{value->initializer + (transposed ? ".transposed" : ""),
                *dtype,
                {dim(0), dim(transposed ? 2 : 1), dim(transposed ? 1 : 2)},
                {},
                {},
                {}};
  return tracer.AddWeight(std::move(weight), std::move(recipe));
}

// Emits the router's choice and the experts.
Result<ValuePtr> EmitExperts(Tracer& tracer, const Node& node, const Choices& choices,
                             MoeExperts op, Dims dims) {
  ASSIGN_OR_RETURN(const View logits, tracer.Rows(node, choices.logits));
  if (static_cast<int64_t>(logits.columns) != choices.experts || choices.top_k < 1 ||
      choices.top_k > choices.experts) {
    return Refuse(node, "chooses " + std::to_string(choices.top_k) + " of " +
                            std::to_string(choices.experts) + " experts by " +
                            std::to_string(logits.columns) + " logits");
  }
  const auto top_k = static_cast<uint32_t>(choices.top_k);
  const View route = tracer.NewBuffer("route", 2 * choices.top_k);
  tracer.program().ops.push_back(
      MoeRoute{logits, route, logits.columns, top_k,
               choices.normalised ? RouteKind::kSoftmaxTopKNormalized : RouteKind::kSoftmaxTopK});
  op.route = route;
  op.experts = logits.columns;
  op.top_k = top_k;
  op.out = tracer.NewBuffer(node.Output(0), op.in.columns);
  tracer.program().ops.push_back(op);
  return tracer.RowsOf(op.out, std::move(dims));
}

// ---- MoE and QMoE

Result<Activation> FusedActivation(const Node& node) {
  const float alpha = node.Float("activation_alpha", 1), beta = node.Float("activation_beta", 0);
  const float limit = node.Float("swiglu_limit", INFINITY);
  const bool swiglu =
      node.String("activation_type", "relu") == "swiglu" && node.Int("swiglu_fusion", 0) == 1;
  if (swiglu && alpha == 1 && beta == 0 && std::isinf(limit)) return Activation::kSilu;
  if (swiglu && alpha == 1.702f && beta == 1 && limit == 7) return Activation::kSwigluOai;
  return Refuse(node,
                "has an activation that is neither silu(gate) * up nor gpt-oss' over interleaved "
                "gate and up");
}

// [experts, rows] of biases; nullopt when they are all 0.
Result<std::optional<WeightId>> Biases(Tracer& tracer, const Node& node, const ValuePtr& value,
                                       int64_t experts, int64_t rows, bool interleaved) {
  if (value == nullptr) return std::optional<WeightId>();
  const ValuePtr numbers = tracer.NumbersOf(value);
  if (numbers == nullptr || numbers->dims != Dims{experts, rows}) {
    return Refuse(node, "has biases that are not constant [experts, rows]");
  }
  const std::vector<double>& from = numbers->numbers;
  if (std::all_of(from.begin(), from.end(), [](double b) { return b == 0; })) {
    return std::optional<WeightId>();
  }
  std::vector<double> values;
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t half = rows / 2;
      const int64_t source = !interleaved ? row : row < half ? 2 * row : 2 * (row - half) + 1;
      values.push_back(from[static_cast<size_t>(expert * rows + source)]);
    }
  }
  const WeightId id = tracer.AddVector(value->initializer + ".deinterleaved", values);
  tracer.program().weights[id].shape = {static_cast<uint64_t>(experts),
                                        static_cast<uint64_t>(rows)};
  return std::optional<WeightId>(id);
}

Result<WeightId> FusedExperts(Tracer& tracer, const Node& node, const ValuePtr& data,
                              const ValuePtr& scale, bool interleaved) {
  if (data == nullptr || data->dims.size() != 3 || data->dims[0] > kMaxExperts ||
      data->dims[1] > kMaxWeightRows || (interleaved && data->dims[1] % 2 != 0)) {
    return Refuse(node, "lacks the experts' matrices [experts, rows, columns]");
  }
  if (node.op_type == "MoE") return FloatExperts(tracer, node, data, false, interleaved);
  if (scale == nullptr) return Refuse(node, "lacks the experts' scales");
  const int64_t bits = node.Int("expert_weight_bits", 4);
  return BlockWeight(tracer, node,
                     {.experts = data->dims[0],
                      .rows = data->dims[1],
                      .columns = data->dims[2] * 8 / std::max<int64_t>(1, bits),
                      .bits = bits,
                      .block_size = node.Int("block_size", 0),
                      .data = data,
                      .scale = scale,
                      .zero = nullptr,
                      .interleaved = interleaved});
}

// ---- spelt out

std::optional<std::vector<int64_t>> AxesOf(Tracer& tracer, const Node& node, const Values& in) {
  std::vector<int64_t> axes = node.Ints("axes");
  if (const ValuePtr given = At(in, 1)) {
    const ValuePtr numbers = tracer.NumbersOf(given);
    if (numbers == nullptr) return std::nullopt;
    for (const double axis : numbers->numbers) axes.push_back(ToInteger(axis));
  }
  for (int64_t& axis : axes) {
    if (axis < 0) axis += static_cast<int64_t>(in[0]->dims.size());
  }
  return axes;
}

bool SameChoices(const Choices& a, const Choices& b) {
  return a.logits == b.logits && a.top_k == b.top_k;
}

// x [choices, columns, 1] (or [choices, 1, columns]): row j is row j / top_k of a view.
Result<View> RepeatedRows(Tracer& tracer, const Node& node, const ValuePtr& x,
                          const Choices& choices) {
  if (x->kind == Kind::kForms) {
    Value rows = *x;
    rows.forms.clear();
    const auto count = tracer.rows() * choices.top_k;
    const auto size = static_cast<int64_t>(x->forms.size());
    const int64_t columns = count == 0 || size % count != 0 ? 0 : size / count;
    bool same = columns > 0;
    for (int64_t i = 0; same && i < size; ++i) {
      const int64_t choice = i / columns;
      const int64_t first = choice / choices.top_k * choices.top_k * columns + i % columns;
      same = x->forms[static_cast<size_t>(i)] == x->forms[static_cast<size_t>(first)];
      if (choice % choices.top_k == 0) rows.forms.push_back(x->forms[static_cast<size_t>(i)]);
    }
    if (same) {
      rows.dims = {tracer.rows(), columns};
      return tracer.Rows(node, MakeValue(std::move(rows)));
    }
  }
  return Refuse(node, "gives experts what are not the rows of their tokens");
}

}  // namespace

Outputs RunMoe(Tracer& tracer, const Node& node, const Values& in) {
  const bool quantised = node.op_type == "QMoE";
  const ValuePtr gate_up = At(in, 2), down = At(in, quantised ? 5 : 4);
  for (size_t slot = quantised ? 8 : 6; slot < in.size(); ++slot) {
    if (in[slot] != nullptr) return Refuse(node, "has an input in slot " + std::to_string(slot));
  }
  if (node.Int("use_sparse_mixer", 0) != 0) return Refuse(node, "chooses by a sparse mixer");
  if (At(in, 1) == nullptr || gate_up == nullptr) return Refuse(node, "lacks an operand");
  MoeExperts op;
  ASSIGN_OR_RETURN(op.kind, FusedActivation(node));
  ASSIGN_OR_RETURN(op.gate_up,
                   FusedExperts(tracer, node, gate_up, quantised ? At(in, 3) : nullptr, true));
  ASSIGN_OR_RETURN(op.down,
                   FusedExperts(tracer, node, down, quantised ? At(in, 6) : nullptr, false));
  const int64_t experts = gate_up->dims[0];
  ASSIGN_OR_RETURN(op.gate_up_bias, Biases(tracer, node, At(in, quantised ? 4 : 3), experts,
                                           gate_up->dims[1], true));
  ASSIGN_OR_RETURN(op.down_bias,
                   Biases(tracer, node, At(in, quantised ? 7 : 5), experts, down->dims[1], false));
  ASSIGN_OR_RETURN(op.in, tracer.Rows(node, in[0]));
  Choices choices;
  choices.logits = in[1];
  choices.experts = experts;
  choices.top_k = node.Int("k", 1);
  choices.normalised = node.Int("normalize_routing_weights", 0) != 0;
  ASSIGN_OR_RETURN(ValuePtr out, EmitExperts(tracer, node, choices, op, in[0]->dims));
  return Values{std::move(out)};
}

std::optional<Outputs> RouteSoftmax(Tracer& tracer, const ValuePtr& x) {
  if (const auto chosen = tracer.ChoicesOf(x)) {
    if (chosen->choices->role != Role::kLogits || x->dims.back() != chosen->choices->top_k) {
      return std::nullopt;
    }
    Choices weights = *chosen->choices;
    weights.role = Role::kWeights;
    weights.normalised = true;  // over the chosen ones alone
    return Values{tracer.ChoicesValue(std::move(weights), x->dims)};
  }
  // Over all columns of rows: a router, if TopK comes next.
  if (x->kind != Kind::kForms || !PlacementOf(*x, tracer.rows(), tracer.source_columns()) ||
      CountOf(x->dims) != tracer.rows() * x->dims.back()) {
    return std::nullopt;
  }
  return Values{MakeValue({.kind = Kind::kRouter, .dims = x->dims, .base = x})};
}

Outputs RunTopK(Tracer& tracer, const Node& node, const Values& in) {
  const ValuePtr k = At(in, 1) == nullptr ? nullptr : tracer.NumbersOf(in[1]);
  const bool of_logits = in[0]->kind == Kind::kForms;
  const int64_t axis = node.Int("axis", -1);
  if (k == nullptr || k->numbers.size() != 1 || (in[0]->kind != Kind::kRouter && !of_logits) ||
      node.Int("largest", 1) == 0 || in[0]->dims.empty() ||
      (axis != -1 && axis != static_cast<int64_t>(in[0]->dims.size()) - 1) ||
      CountOf(in[0]->dims) != tracer.rows() * in[0]->dims.back()) {
    return Refuse(node, "chooses among what are no experts");
  }
  Choices choices;
  choices.logits = of_logits ? in[0] : in[0]->base;
  choices.experts = in[0]->dims.back();
  choices.top_k = ToInteger(k->numbers[0]);
  if (choices.top_k < 1 || choices.top_k > choices.experts || choices.experts > kMaxExperts) {
    return Refuse(node, "chooses " + std::to_string(choices.top_k) + " of " +
                            std::to_string(choices.experts));
  }
  Dims dims = in[0]->dims;
  dims.back() = choices.top_k;
  Choices indices = choices;
  choices.role = of_logits ? Role::kLogits : Role::kWeights;
  return Values{tracer.ChoicesValue(std::move(choices), dims),
                tracer.ChoicesValue(std::move(indices), dims)};
}

Outputs RunClip(Tracer& tracer, const Node& node, const Values& in) {
  const auto chosen = tracer.ChoicesOf(in[0]);
  const ValuePtr low = At(in, 1) == nullptr ? nullptr : tracer.NumbersOf(in[1]);
  const ValuePtr high = At(in, 2) == nullptr ? nullptr : tracer.NumbersOf(in[2]);
  const bool keeps_all = chosen && chosen->choices->role == Role::kIndices && low != nullptr &&
                         high != nullptr && low->numbers == std::vector<double>{0} &&
                         high->numbers.size() == 1 &&
                         high->numbers[0] >= static_cast<double>(chosen->choices->experts - 1);
  if (!keeps_all) return Refuse(node, "clips what are no indices of experts");
  return Values{in[0]};
}

Outputs GatherExperts(Tracer& tracer, const Node& node, const Values& in) {
  const auto chosen = tracer.ChoicesOf(in[1]);
  if (!chosen || chosen->choices->role != Role::kIndices || in[0]->kind != Kind::kInitializer ||
      in[0]->dims.size() != 3 || in[0]->dims[0] != chosen->choices->experts ||
      in[1]->dims.size() != 1 || node.Int("axis", 0) != 0) {
    return Refuse(node, "looks up by a hidden value what are no experts");
  }
  Value out{.kind = Kind::kExperts,
            .dims = {in[1]->dims[0], in[0]->dims[1], in[0]->dims[2]},
            .base = in[1],
            .other = in[0]};
  return Values{MakeValue(std::move(out))};
}

Outputs MultiplyExperts(Tracer& tracer, const Node& node, const Values& in) {
  // The experts [n, rows, columns] * x [n, columns, 1], or x [n, 1, columns] * experts [n, columns,
  // rows]
  const bool first = in[0]->kind == Kind::kExperts;
  const ValuePtr &experts = in[first ? 0 : 1], &x = in[first ? 1 : 0];
  if (experts->kind == x->kind || x->dims.size() != 3 || x->dims[0] != experts->dims[0] ||
      x->dims[first ? 2 : 1] != 1 || x->dims[first ? 1 : 2] != experts->dims[first ? 2 : 1]) {
    return Refuse(node, "multiplies experts' matrices with what does not fit them");
  }
  Choices out = *tracer.ChoicesOf(experts->base)->choices;
  out.columns = experts->dims[first ? 1 : 2];
  if (out.columns > kMaxWeightRows) return Refuse(node, "has experts of more than a million rows");
  ASSIGN_OR_RETURN(const WeightId weight,
                   FloatExperts(tracer, node, experts->other, !first, false));
  const auto chosen = tracer.ChoicesOf(x);
  if (chosen && chosen->choices->role == Role::kHidden && SameChoices(out, *chosen->choices) &&
      chosen->columns == chosen->choices->columns) {
    const int64_t columns = out.columns;
    out = *chosen->choices;
    out.columns = columns;
    out.role = Role::kOut;
    out.down = weight;
  } else {
    ASSIGN_OR_RETURN(out.in, RepeatedRows(tracer, node, x, out));
    out.role = Role::kGateUp;
    out.gate_up = weight;
  }
  Dims dims = {x->dims[0], first ? out.columns : 1, first ? 1 : out.columns};
  return Values{tracer.ChoicesValue(std::move(out), std::move(dims))};
}

ValuePtr GateChoices(Tracer& tracer, const ValuePtr& gate, const ValuePtr& up, Activation kind) {
  const auto a = tracer.ChoicesOf(gate), b = tracer.ChoicesOf(up);
  if (!a || !b || a->choices != b->choices || a->choices->role != Role::kGateUp ||
      a->columns != b->columns || a->first != 0 || b->first != a->columns ||
      2 * a->columns != a->choices->columns) {
    return nullptr;
  }
  Choices hidden = *a->choices;
  hidden.role = Role::kHidden;
  hidden.columns = a->columns;
  hidden.kind = kind;
  return tracer.ChoicesValue(std::move(hidden), up->dims);
}

std::optional<Outputs> RouteProduct(Tracer& tracer, const Node& node, const ValuePtr& a,
                                    const ValuePtr& b) {
  const auto x = tracer.ChoicesOf(a);
  if (!x) return std::nullopt;
  if (node.Is("Div") && b->kind == Kind::kRouteSum && b->base->forms == a->forms) {
    Choices weights = *x->choices;
    weights.normalised = true;
    return Values{tracer.ChoicesValue(std::move(weights), a->dims)};
  }
  const auto y = tracer.ChoicesOf(b);
  if (!node.Is("Mul") || !y || !SameChoices(*x->choices, *y->choices)) return std::nullopt;
  const bool is_first = x->choices->role == Role::kOut;
  const auto &out = is_first ? x : y, &weights = is_first ? y : x;
  if (out->choices->role != Role::kOut || weights->choices->role != Role::kWeights) {
    return std::nullopt;
  }
  Choices weighted = *out->choices;
  weighted.role = Role::kWeighted;
  weighted.normalised = weights->choices->normalised;
  return Values{tracer.ChoicesValue(std::move(weighted), is_first ? a->dims : b->dims)};
}

Outputs RunReduceSum(Tracer& tracer, const Node& node, const Values& in) {
  const auto chosen = tracer.ChoicesOf(in[0]);
  if (!chosen) return RunNumbers(tracer, node, in);
  const auto axes = AxesOf(tracer, node, in);
  const Dims& dims = in[0]->dims;
  if (!axes || axes->size() != 1) return Refuse(node, "sums over axes that weft does not know");
  const Choices& choices = *chosen->choices;
  if (choices.role == Role::kWeights && (*axes)[0] + 1 == static_cast<int64_t>(dims.size()) &&
      dims.back() == choices.top_k && node.Int("keepdims", 1) != 0) {
    Dims kept = dims;
    kept.back() = 1;
    return Values{MakeValue({.kind = Kind::kRouteSum, .dims = std::move(kept), .base = in[0]})};
  }
  const bool whole = choices.role == Role::kWeighted && choices.down && choices.gate_up &&
                     choices.in && chosen->columns == choices.columns;
  if (!whole || dims != Dims{tracer.rows(), choices.top_k, choices.columns} || (*axes)[0] != 1) {
    return Refuse(node, "sums what are not the weighted results of a token's experts");
  }
  MoeExperts op{.in = *choices.in,
                .route = {},
                .out = {},
                .experts = 0,
                .top_k = 0,
                .kind = choices.kind,
                .gate_up = *choices.gate_up,
                .down = *choices.down,
                .gate_up_bias = {},
                .down_bias = {}};
  Dims out_dims = {tracer.rows(), choices.columns};
  if (node.Int("keepdims", 1) != 0) out_dims = {tracer.rows(), 1, choices.columns};
  if (op.in.columns != choices.columns) return Refuse(node, "changes the width of its rows");
  ASSIGN_OR_RETURN(ValuePtr out, EmitExperts(tracer, node, choices, op, std::move(out_dims)));
  return Values{std::move(out)};
}

}  // namespace weft::lower::trace
