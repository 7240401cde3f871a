// Gated activations: silu(gate) * up, with silu written as Mul(gate, Sigmoid(gate)).
#include "program/lowering/rules.h"

namespace weft::program {
namespace {

using onnx::Node;

// The gate when `value` is silu(gate).
std::optional<std::string> MatchSilu(const LoweringContext& context, std::string_view value) {
  const Node* mul = context.ProducerIf(context.ThroughCasts(value), "Mul");
  if (mul == nullptr) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Node* sigmoid = context.ProducerIf(mul->Input(side), "Sigmoid");
    if (sigmoid != nullptr && sigmoid->Input(0) == mul->Input(1 - side)) {
      return std::string(sigmoid->Input(0));
    }
  }
  return std::nullopt;
}

}  // namespace

Result<View> LowerMul(LoweringContext& context, const Node& node) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const std::optional<std::string> gate_name = MatchSilu(context, node.Input(side));
    if (!gate_name) continue;
    ASSIGN_OR_RETURN(const View gate, context.Lower(*gate_name));
    ASSIGN_OR_RETURN(const View up, context.Lower(std::string(node.Input(1 - side))));
    if (gate.columns != up.columns) {
      return LoweringContext::Refuse(node, "multiplies " + std::to_string(gate.columns) + " and " +
                                               std::to_string(up.columns) + " columns");
    }
    const View out = context.NewBuffer(node.Output(0), gate.columns);
    context.Emit(GatedActivation{gate, up, out, Activation::kSilu});
    return out;
  }
  return LoweringContext::Refuse(node, "is not a gated activation");
}

}  // namespace weft::program
