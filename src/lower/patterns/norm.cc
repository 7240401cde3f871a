// RMS norms over whole rows and over the heads of a row.
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::Node;

// The constant target of a Reshape; nullopt when it is computed.
std::optional<std::vector<int64_t>> ReshapeTarget(const LoweringContext& context,
                                                  const Node& node) {
  const onnx::Tensor* target = context.graph().FindInitializer(node.Input(1));
  if (target == nullptr || node.Int("allowzero", 0) != 0) return std::nullopt;
  return target->AsInt64s();
}

}  // namespace

bool IsRmsNorm(const Node& node) {
  return node.Is("SimplifiedLayerNormalization") || node.Is("RMSNormalization") ||
         node.IsMicrosoft("SimplifiedLayerNormalization");
}

Result<View> LowerRmsNorm(LoweringContext& context, const Node& node) {
  ASSIGN_OR_RETURN(const View in, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(const WeightId weight, context.Vector(node, node.Input(1)));
  if (node.Int("axis", -1) != -1 || context.program().weights[weight].shape[0] != in.columns) {
    return Refuse(node,
                  "does not normalise whole rows of " + std::to_string(in.columns) + " columns");
  }
  const View out = context.NewBuffer(node.Output(0), in.columns);
  context.Emit(RmsNorm{in, out, weight, node.Float("epsilon", 1e-5f)});
  return out;
}

// weft's GroupNorm: the RMS norm of each group of neighbouring columns; the weight [groups, columns
// of a group] has a row for each of them.
Result<View> LowerGroupNorm(LoweringContext& context, const Node& node) {
  ASSIGN_OR_RETURN(const View in, context.Lower(std::string(node.Input(0))));
  const std::string name(node.Input(1));
  const onnx::Tensor* tensor = context.graph().FindInitializer(name);
  const bool fits = tensor != nullptr && tensor->type == onnx::ElementType::kFloat &&
                    tensor->dims.size() == 2 && tensor->dims[0] > 0 &&
                    in.columns % tensor->dims[0] == 0 &&
                    tensor->dims[1] == in.columns / tensor->dims[0];
  if (!fits) {
    return Refuse(node, "has no f32 weight of [groups, columns of a group] for " +
                            std::to_string(in.columns) + " columns");
  }
  ASSIGN_OR_RETURN(const Part part, PartOf(node, name, *tensor));
  const std::vector<uint64_t> shape(tensor->dims.begin(), tensor->dims.end());
  const WeightId weight = context.AddWeight({name, DType::kF32, shape, {part}, {}, {}});
  const View out = context.NewBuffer(node.Output(0), in.columns);
  context.Emit(RmsNorm{in, out, weight, node.Float("epsilon", 1e-5f)});
  return out;
}

Result<View> LowerLayerNorm(LoweringContext& context, const Node& node) {
  ASSIGN_OR_RETURN(const View in, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(const WeightId weight, context.Vector(node, node.Input(1)));
  if (node.Int("axis", -1) != -1 || context.program().weights[weight].shape[0] != in.columns) {
    return Refuse(node,
                  "does not normalise whole rows of " + std::to_string(in.columns) + " columns");
  }
  LayerNorm op{in, {}, weight, {}, node.Float("epsilon", 1e-5f)};
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(op.bias, context.Vector(node, node.Input(2)));
  }
  op.out = context.NewBuffer(node.Output(0), in.columns);
  context.Emit(op);
  return op.out;
}

std::optional<HeadNorm> MatchHeadNorm(const LoweringContext& context, std::string_view value) {
  const Node* join = context.ProducerIf(value, "Reshape");
  const Node* norm = join == nullptr ? nullptr : context.Producer(join->Input(0));
  if (norm == nullptr || !IsRmsNorm(*norm) || norm->Int("axis", -1) != -1) return std::nullopt;
  const Node* split = context.ProducerIf(norm->Input(0), "Reshape");
  if (split == nullptr) return std::nullopt;
  const auto to_heads = ReshapeTarget(context, *split);
  const auto to_rows = ReshapeTarget(context, *join);
  const onnx::Tensor* weight = context.FindConstant(norm->Input(1));
  // [batch, sequence, columns] -> [batch, -1, head_columns] -> [batch, -1, columns]: heads stay in
  // order.
  const bool fits = to_heads && to_rows && to_heads->size() == 3 && to_rows->size() == 3 &&
                    (*to_heads)[0] == 0 && (*to_rows)[0] == 0 && (*to_heads)[1] == -1 &&
                    (*to_rows)[1] == -1 && (*to_heads)[2] > 0 && weight != nullptr &&
                    weight->dims == std::vector<int64_t>{(*to_heads)[2]} &&
                    (*to_rows)[2] % (*to_heads)[2] == 0 && context.IsReadOnce(norm->Output(0)) &&
                    context.IsReadOnce(split->Output(0));
  if (!fits) return std::nullopt;
  return HeadNorm{std::string(split->Input(0)), std::string(norm->Input(1)),
                  static_cast<uint32_t>((*to_heads)[2]), norm->Float("epsilon", 1e-5f)};
}

Result<View> LowerReshape(LoweringContext& context, const Node& node) {
  const std::optional<HeadNorm> norm = MatchHeadNorm(context, node.Output(0));
  if (!norm) return Refuse(node, "does not end a norm over heads");
  ASSIGN_OR_RETURN(const View in, context.Lower(norm->input));
  ASSIGN_OR_RETURN(const WeightId weight, context.Vector(node, norm->weight));
  if (in.columns % norm->head_columns != 0) {
    return Refuse(node, "cuts " + std::to_string(in.columns) + " columns into heads of " +
                            std::to_string(norm->head_columns));
  }
  const View out = context.NewBuffer(node.Output(0), in.columns);
  context.Emit(QkNormRope{
      in, out, in.columns / norm->head_columns, norm->head_columns, weight, norm->epsilon, {}});
  return out;
}

}  // namespace weft::lower
