// Gated activations: activation(gate) * up, where silu is written as Mul(gate, Sigmoid(gate)), and
// relu(x)^2 as Mul(Relu(x), x).
#include <utility>

#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::Node;

struct ActivatedGate {
  std::string gate;
  Activation kind = Activation::kSilu;
};

// The gate when `value` is its activation.
std::optional<ActivatedGate> MatchActivation(const LoweringContext& context,
                                             std::string_view value) {
  const Node* node = context.Producer(context.ThroughCasts(value));
  if (node == nullptr) return std::nullopt;
  if (node->Is("Gelu")) {
    const bool is_tanh = node->String("approximate", "none") == "tanh";
    return ActivatedGate{std::string(node->Input(0)),
                         is_tanh ? Activation::kGeluTanh : Activation::kGelu};
  }
  if (node->Is("Relu")) return ActivatedGate{std::string(node->Input(0)), Activation::kRelu};
  if (!node->Is("Mul")) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Node* sigmoid = context.ProducerIf(node->Input(side), "Sigmoid");
    if (sigmoid != nullptr && sigmoid->Input(0) == node->Input(1 - side)) {
      return ActivatedGate{std::string(sigmoid->Input(0)), Activation::kSilu};
    }
  }
  return std::nullopt;
}

// The gates in * sigmoid(gate), and what is left: the product of two hidden values. A gate of one
// column scales whole rows.
Result<View> LowerGate(LoweringContext& context, const Node& node) {
  Gate op;
  op.kind = GateKind::kIdentity;
  std::string in(node.Input(0)), gate(node.Input(1));
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Node* sigmoid = context.ProducerIf(node.Input(side), "Sigmoid");
    if (sigmoid == nullptr) continue;
    op.kind = GateKind::kSigmoid;
    in = node.Input(1 - side);
    gate = sigmoid->Input(0);
    break;
  }
  ASSIGN_OR_RETURN(op.in, context.Lower(in));
  ASSIGN_OR_RETURN(op.gate, context.Lower(gate));
  const bool swaps = op.in.columns == 1 && op.kind == GateKind::kIdentity;
  if (swaps) std::swap(op.in, op.gate);
  if (op.gate.columns != op.in.columns && op.gate.columns != 1) {
    return Refuse(node, "multiplies " + std::to_string(op.in.columns) + " and " +
                            std::to_string(op.gate.columns) + " columns");
  }
  op.out = context.NewBuffer(node.Output(0), op.in.columns);
  context.Emit(op);
  return op.out;
}

}  // namespace

Result<View> LowerMul(LoweringContext& context, const Node& node) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (const auto factor = ScalarConstant(context, node.Input(side))) {
      return LowerScaling(context, node, std::string(node.Input(1 - side)), *factor);
    }
  }
  if (auto experts = LowerScaledExperts(context, node)) return std::move(*experts);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const auto activated = MatchActivation(context, node.Input(side));
    if (!activated) continue;
    ASSIGN_OR_RETURN(const View gate, context.Lower(activated->gate));
    ASSIGN_OR_RETURN(const View up, context.Lower(std::string(node.Input(1 - side))));
    if (gate.columns != up.columns) {
      return Refuse(node, "multiplies " + std::to_string(gate.columns) + " and " +
                              std::to_string(up.columns) + " columns");
    }
    const View out = context.NewBuffer(node.Output(0), gate.columns);
    context.Emit(GatedActivation{gate, up, out, activated->kind});
    return out;
  }
  return LowerGate(context, node);
}

}  // namespace weft::lower
