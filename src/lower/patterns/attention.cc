// com.microsoft GroupQueryAttention over separate q, k and v that are rotated already.
#include <cmath>

#include "lower/layer_form.h"
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::Node;

// The value behind shape arithmetic that keeps it: casts of any type and reshapes of a single
// number.
std::string_view ThroughShaping(const LoweringContext& context, std::string_view value) {
  for (const Node* node = context.Producer(value);
       node != nullptr &&
       (node->Is("Cast") || node->Is("Identity") || node->Is("Squeeze") || node->Is("Unsqueeze"));
       node = context.Producer(value)) {
    value = node->Input(0);
  }
  return value;
}

bool IsConstant(const LoweringContext& context, std::string_view value, int64_t expected) {
  const onnx::Tensor* tensor = context.graph().FindInitializer(value);
  return tensor != nullptr && tensor->AsInt64s() == std::vector<int64_t>{expected};
}

// Shape(attention_mask)[1]: positions held after this step.
bool IsTotalLength(const LoweringContext& context, std::string_view value) {
  const Node* gather = context.ProducerIf(ThroughShaping(context, value), "Gather");
  if (gather == nullptr || !IsConstant(context, gather->Input(1), 1)) return false;
  const Node* shape = context.ProducerIf(gather->Input(0), "Shape");
  return shape != nullptr && shape->Input(0) == "attention_mask" && shape->Int("start", 0) == 0 &&
         gather->Int("axis", 0) == 0;
}

// ReduceSum(attention_mask, 1) - 1: with a mask of ones, the last position after this step.
bool IsLastPosition(const LoweringContext& context, std::string_view value) {
  const Node* sub = context.ProducerIf(ThroughShaping(context, value), "Sub");
  if (sub == nullptr || !IsConstant(context, sub->Input(1), 1)) return false;
  const Node* sum = context.ProducerIf(ThroughShaping(context, sub->Input(0)), "ReduceSum");
  return sum != nullptr && sum->Input(0) == "attention_mask" &&
         IsConstant(context, sum->Input(1), 1);
}

Status ExpectKnownForm(const LoweringContext& context, const Node& node) {
  const auto refuse = [&](const std::string& why) { return Refuse(node, why); };
  if (!node.HasInput(1) || !node.HasInput(2)) return refuse("takes q, k and v packed in one value");
  if (node.Int("do_rotary", 0) != 0) return refuse("rotates q and k itself");
  if (node.HasInput(9)) return refuse("has an input in slot 9");
  TRY(ExpectPlainAttention(context.graph(), node));
  if (!IsLastPosition(context, node.Input(5)) || !IsTotalLength(context, node.Input(6))) {
    return refuse("takes lengths that are not those of attention_mask");
  }
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    if (context.graph().FindOutput(node.Output(slot)) == nullptr ||
        !context.index().Consumers(node.Output(slot)).empty()) {
      return refuse("writes a cache that is not just an output of the layer");
    }
  }
  return OkStatus();
}

// What the attributes say of heads, scores and window. REQUIRES: op->q is set.
Status ReadHeads(const Node& node, Attention* op) {
  const int64_t heads = node.Int("num_heads", 0), kv_heads = node.Int("kv_num_heads", 0);
  const int64_t window = node.Int("local_window_size", -1);
  if (heads <= 0 || kv_heads <= 0 || kv_heads > heads || op->q.columns % heads != 0) {
    return Refuse(node, "has " + std::to_string(heads) + " heads over " +
                            std::to_string(op->q.columns) + " columns and " +
                            std::to_string(kv_heads) + " of keys and values");
  }
  op->heads = static_cast<uint32_t>(heads);
  op->kv_heads = static_cast<uint32_t>(kv_heads);
  op->head_columns = op->q.columns / op->heads;
  op->scale = node.Float("scale", 0);
  if (op->scale == 0) op->scale = 1 / std::sqrt(static_cast<float>(op->head_columns));
  op->window = window > 0 ? static_cast<uint32_t>(window) : 0;
  op->softcap = node.Float("softcap", 0);
  return OkStatus();
}

}  // namespace

Result<View> LowerGroupQueryAttention(LoweringContext& context, const Node& node) {
  TRY(ExpectKnownForm(context, node));
  Attention op;
  ASSIGN_OR_RETURN(op.q, context.Lower(std::string(node.Input(0))));
  ASSIGN_OR_RETURN(op.k, context.Lower(std::string(node.Input(1))));
  ASSIGN_OR_RETURN(op.v, context.Lower(std::string(node.Input(2))));
  TRY(ReadHeads(node, &op));
  if (op.k.columns != op.kv_heads * op.head_columns || op.v.columns != op.k.columns) {
    return Refuse(node, "has " + std::to_string(op.kv_heads) + " heads of " +
                            std::to_string(op.head_columns) + " columns over " +
                            std::to_string(op.k.columns));
  }
  if (node.HasInput(11)) {
    ASSIGN_OR_RETURN(op.sinks, context.Vector(node, node.Input(11)));
  }
  op.out = context.NewBuffer(node.Output(0), op.q.columns);
  context.Emit(op);
  return op.out;
}

Result<View> LowerSharedAttention(LoweringContext& context, const Node& node) {
  Attention op;
  ASSIGN_OR_RETURN(op.q, context.Lower(std::string(node.Input(0))));
  TRY(ReadHeads(node, &op));
  op.kv_layer = CountAttribute(node, "kv_layer");
  if (*op.kv_layer == 0) return Refuse(node, "does not say whose keys and values it attends to");
  op.out = context.NewBuffer(node.Output(0), op.q.columns);
  context.Emit(op);
  return op.out;
}

}  // namespace weft::lower
