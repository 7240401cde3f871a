// Products with a number: of the embedding, of any other value, and cap * tanh(x / cap).
#include <cmath>

#include "lower/patterns/rules.h"

namespace weft::lower {
namespace {

using onnx::Node;

// Gives x when `value` is tanh(x / cap) and nothing else reads the steps between.
std::optional<std::string> MatchCapped(const LoweringContext& context, const std::string& value,
                                       float cap) {
  const Node* tanh = context.ProducerIf(context.ThroughCasts(value), "Tanh");
  if (tanh == nullptr) return std::nullopt;
  const Node* ratio = context.Producer(context.ThroughCasts(tanh->Input(0)));
  if (ratio == nullptr || !(ratio->Is("Div") || ratio->Is("Mul"))) return std::nullopt;
  const std::optional<float> by = ScalarConstant(context, ratio->Input(1));
  if (!by) return std::nullopt;
  const float limit = ratio->Is("Div") ? *by : 1 / *by;
  if (!(std::fabs(limit - cap) <= 1e-6f * cap)) return std::nullopt;
  return std::string(ratio->Input(0));
}

// Nothing but one product reads what `value` is cast from.
bool IsReadOnceThroughCasts(const LoweringContext& context, std::string value) {
  const std::string source = context.ThroughCasts(value);
  while (context.IsReadOnce(value)) {
    if (value == source) return true;
    value = context.Producer(value)->Input(0);
  }
  return false;
}

}  // namespace

std::optional<float> ScalarConstant(const LoweringContext& context, std::string_view value) {
  const onnx::Tensor* tensor = context.FindConstant(value);
  const auto values = tensor == nullptr ? std::nullopt : tensor->AsFloats();
  if (!values || values->size() != 1 || !std::isfinite(values->front())) return std::nullopt;
  return values->front();
}

Result<View> LowerScaling(LoweringContext& context, const Node& node, const std::string& value,
                          float factor) {
  const auto capped = MatchCapped(context, value, factor);
  ASSIGN_OR_RETURN(const View in, context.Lower(capped ? *capped : value));
  if (!capped && !context.program().ops.empty() && IsReadOnceThroughCasts(context, value)) {
    auto* embed = std::get_if<Embed>(&context.program().ops.back());
    if (embed != nullptr && embed->out.buffer == in.buffer) {
      embed->scale *= factor;
      return in;
    }
  }
  const View out = context.NewBuffer(node.Output(0), in.columns);
  if (capped) {
    context.Emit(Softcap{in, out, factor});
  } else {
    context.Emit(Scale{in, out, factor});
  }
  return out;
}

}  // namespace weft::lower
