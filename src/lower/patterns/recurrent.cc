// Operators with recurrent state, of the domain "weft" (convert/graph/recurrent_nodes.h). Where the
// state comes from and goes to is the engine's affair: the nodes' past must be an input of the
// layer and their present one of its outputs.
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::Node;

Status ExpectOwnState(const LoweringContext& context, const Node& node, size_t past) {
  if (context.graph().FindInput(node.Input(past)) == nullptr ||
      context.graph().FindOutput(node.Output(1)) == nullptr ||
      !context.index().Consumers(node.Output(1)).empty()) {
    return Refuse(node, "has a state that is not just an input and an output of the layer");
  }
  return OkStatus();
}

// The weight [columns, taps] of a convolution.
Result<WeightId> ConvWeight(LoweringContext& context, const Node& node, uint32_t columns) {
  const std::string name(node.Input(1));
  const onnx::Tensor* tensor = context.graph().FindInitializer(name);
  if (tensor == nullptr || tensor->type != onnx::ElementType::kFloat || tensor->dims.size() != 2 ||
      tensor->dims[0] != columns) {
    return Refuse(node, "has no f32 weight of [" + std::to_string(columns) + ", taps]");
  }
  ASSIGN_OR_RETURN(const Part part, PartOf(node, name, *tensor));
  return context.AddWeight(
      {name, DType::kF32, {columns, static_cast<uint64_t>(tensor->dims[1])}, {part}, {}, {}});
}

// Takes views from left to right out of one.
class Columns {
 public:
  explicit Columns(View whole) : left_(whole) {}
  View Take(uint64_t columns) {
    const View taken = {left_.buffer, left_.first_column, static_cast<uint32_t>(columns)};
    left_.first_column += taken.columns;
    left_.columns -= taken.columns;
    return taken;
  }

 private:
  View left_;
};

}  // namespace

Result<View> LowerCausalConv(LoweringContext& context, const Node& node) {
  TRY(ExpectOwnState(context, node, 3));
  CausalConv op;
  ASSIGN_OR_RETURN(op.in, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(op.weight, ConvWeight(context, node, op.in.columns));
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(op.bias, context.Vector(node, node.Input(2)));
  }
  op.silu = node.String("activation", "none") == "silu";
  op.out = context.NewBuffer(node.Output(0), op.in.columns);
  context.Emit(op);
  return op.out;
}

Result<View> LowerDeltaRule(LoweringContext& context, const Node& node) {
  TRY(ExpectOwnState(context, node, 5));
  DeltaRule op;
  op.key_heads = CountAttribute(node, "key_heads");
  op.value_heads = CountAttribute(node, "value_heads");
  op.key_columns = CountAttribute(node, "key_columns");
  op.value_columns = CountAttribute(node, "value_columns");
  const std::string groups(node.String("key_groups", "grouped"));
  op.groups = groups == "tiled" ? KeyGroups::kTiled : KeyGroups::kGrouped;
  const uint64_t keys = uint64_t{op.key_heads} * op.key_columns;
  const uint64_t values = uint64_t{op.value_heads} * op.value_columns;
  ASSIGN_OR_RETURN(const View qkv, context.Lower(std::string(node.Input(0))));
  if (keys == 0 || values == 0 || qkv.columns != 2 * keys + values) {
    return Refuse(node, "takes q, k and v from " + std::to_string(qkv.columns) +
                            " columns; its heads have " + std::to_string(2 * keys + values));
  }
  Columns columns(qkv);
  op.q = columns.Take(keys);
  op.k = columns.Take(keys);
  op.v = columns.Take(values);
  ASSIGN_OR_RETURN(op.a, context.Lower(std::string(node.Input(1))));
  ASSIGN_OR_RETURN(op.b, context.Lower(std::string(node.Input(2))));
  ASSIGN_OR_RETURN(op.decay, context.Vector(node, node.Input(3)));
  ASSIGN_OR_RETURN(op.dt_bias, context.Vector(node, node.Input(4)));
  op.out = context.NewBuffer(node.Output(0), values);
  context.Emit(op);
  return op.out;
}

Result<View> LowerSsmScan(LoweringContext& context, const Node& node) {
  TRY(ExpectOwnState(context, node, 5));
  SsmScan op;
  op.heads = CountAttribute(node, "heads");
  op.head_columns = CountAttribute(node, "head_columns");
  op.groups = CountAttribute(node, "groups");
  op.state_columns = CountAttribute(node, "state_columns");
  op.dt_min = node.Float("dt_min", 0);
  op.dt_max = node.Float("dt_max", 0);
  const uint64_t values = uint64_t{op.heads} * op.head_columns;
  const uint64_t states = uint64_t{op.groups} * op.state_columns;
  ASSIGN_OR_RETURN(const View xbc, context.Lower(std::string(node.Input(0))));
  if (values == 0 || states == 0 || xbc.columns != values + 2 * states) {
    return Refuse(node, "takes x, b and c from " + std::to_string(xbc.columns) +
                            " columns; its heads have " + std::to_string(values + 2 * states));
  }
  Columns columns(xbc);
  op.x = columns.Take(values);
  op.b = columns.Take(states);
  op.c = columns.Take(states);
  ASSIGN_OR_RETURN(op.dt, context.Lower(std::string(node.Input(1))));
  ASSIGN_OR_RETURN(op.decay, context.Vector(node, node.Input(2)));
  ASSIGN_OR_RETURN(op.dt_bias, context.Vector(node, node.Input(3)));
  ASSIGN_OR_RETURN(op.skip, context.Vector(node, node.Input(4)));
  op.out = context.NewBuffer(node.Output(0), values);
  context.Emit(op);
  return op.out;
}

}  // namespace weft::lower
