// com.microsoft MoE and QMoE over experts that the graph stacks out of one initializer each: their
// bytes stay where they are, and become the parts of one weight [experts, rows, columns].
#include <cmath>

#include "lower/patterns/block_forms.h"
#include "lower/patterns/rules.h"
#include "lower/refuse.h"

namespace weft::lower {
namespace {

using onnx::ElementType;
using onnx::Node;
using onnx::Tensor;

// Initializers [1, ...] of equal shape and type, stacked by a Concat.
struct Stack {
  std::string name;  // of the stacked value
  std::vector<std::string> initializers;
  ElementType type = ElementType::kUndefined;
  std::vector<int64_t> dims;  // of one expert, without the leading 1
};

Result<Stack> MatchStack(const LoweringContext& context, const Node& node,
                         const std::string& value) {
  const Node* concat = context.ProducerIf(value, "Concat");
  if (concat == nullptr || concat->Int("axis", -1) != 0) {
    return Refuse(node,
                  "reads '" + value + "', which does not stack one initializer for each expert");
  }
  Stack stack{value, {}, ElementType::kUndefined, {}};
  for (const std::string& name : concat->inputs) {
    const Tensor* tensor = context.graph().FindInitializer(name);
    const bool fits = tensor != nullptr && tensor->dims.size() >= 2 && tensor->dims[0] == 1;
    const std::vector<int64_t> dims =
        fits ? std::vector<int64_t>(tensor->dims.begin() + 1, tensor->dims.end())
             : std::vector<int64_t>();
    if (stack.initializers.empty() && fits) {
      stack.type = tensor->type;
      stack.dims = dims;
    }
    if (!fits || tensor->type != stack.type || dims != stack.dims) {
      return Refuse(*concat, "stacks '" + name + "', which is not of the others' shape");
    }
    stack.initializers.push_back(name);
  }
  return stack;
}

std::optional<std::vector<int64_t>> Target(const LoweringContext& context, const Node& reshape) {
  const Tensor* target = context.graph().FindInitializer(reshape.Input(1));
  return target == nullptr ? std::nullopt : target->AsInt64s();
}

// Behind Reshape [n, 2, w, ..], Transpose and Reshape [n, 2 w, ..], which interleave the rows of
// gate and up, lie the stacked experts with gate first and up below.
Result<Stack> MatchInterleaved(const LoweringContext& context, const Node& node,
                               std::string_view value) {
  const auto refuse = [&] {
    return Refuse(node,
                  "reads '" + std::string(value) + "', which is not gate and up rows interleaved");
  };
  const Node* join = context.ProducerIf(context.ThroughCasts(value), "Reshape");
  const Node* turn = join == nullptr ? nullptr : context.ProducerIf(join->Input(0), "Transpose");
  const Node* split = turn == nullptr ? nullptr : context.ProducerIf(turn->Input(0), "Reshape");
  if (split == nullptr) return refuse();
  ASSIGN_OR_RETURN(Stack stack, MatchStack(context, node, context.ThroughCasts(split->Input(0))));
  const auto count = static_cast<int64_t>(stack.initializers.size());
  std::vector<int64_t> split_shape = {count, 2, stack.dims[0] / 2}, joined = {count, stack.dims[0]};
  std::vector<int64_t> perm = {0, 2, 1};
  for (size_t i = 1; i < stack.dims.size(); ++i) {
    split_shape.push_back(stack.dims[i]);
    joined.push_back(stack.dims[i]);
    perm.push_back(static_cast<int64_t>(perm.size()));
  }
  if (stack.dims[0] % 2 != 0 || Target(context, *split) != split_shape ||
      Target(context, *join) != joined || turn->Ints("perm") != perm) {
    return refuse();
  }
  return stack;
}

// The stacked experts behind an input of `node`.
Result<Stack> StackAt(const LoweringContext& context, const Node& node, size_t slot,
                      bool interleaved) {
  if (interleaved) return MatchInterleaved(context, node, node.Input(slot));
  return MatchStack(context, node, context.ThroughCasts(node.Input(slot)));
}

Result<std::vector<Part>> PartsOf(const LoweringContext& context, const Node& node,
                                  const Stack& stack) {
  std::vector<Part> parts;
  for (const std::string& name : stack.initializers) {
    ASSIGN_OR_RETURN(const Part part, PartOf(node, name, *context.graph().FindInitializer(name)));
    parts.push_back(part);
  }
  return parts;
}

// Where the inputs of MoE and QMoE are.
struct Slots {
  size_t gate_up, gate_up_scale, gate_up_bias, down, down_scale, down_bias, end;
};
constexpr size_t kNone = 100;
constexpr Slots kMoeSlots = {2, kNone, 3, 4, kNone, 5, 6};
constexpr Slots kQMoeSlots = {2, 3, 4, 5, 6, 7, 8};  // weft's Experts, too

class ExpertsLowering {
 public:
  ExpertsLowering(LoweringContext& context, const Node& node)
      : context_(context),
        node_(node),
        is_own_(node.op_type == "Experts"),
        is_quantised_(node.op_type == "QMoE" || (is_own_ && node.HasInput(kQMoeSlots.down_scale))),
        slots_(is_own_ || is_quantised_ ? kQMoeSlots : kMoeSlots) {}

  // The experts' weights stay as the router's softmax has them, whatever the attribute says.
  void KeepWeights() { keeps_weights_ = true; }

  Result<View> Run() {
    MoeExperts op;
    ASSIGN_OR_RETURN(op.kind, is_own_ ? OwnKind() : Kind());
    ASSIGN_OR_RETURN(op.gate_up, Matrix(slots_.gate_up, slots_.gate_up_scale, !is_own_));
    ASSIGN_OR_RETURN(op.down, Matrix(slots_.down, slots_.down_scale, false));
    if (node_.HasInput(slots_.gate_up_bias)) {
      ASSIGN_OR_RETURN(op.gate_up_bias, Bias(slots_.gate_up_bias, !is_own_));
    }
    if (node_.HasInput(slots_.down_bias)) {
      ASSIGN_OR_RETURN(op.down_bias, Bias(slots_.down_bias, false));
    }
    for (size_t slot = slots_.end; slot < node_.inputs.size(); ++slot) {
      if (node_.HasInput(slot)) {
        return Refuse(node_, "has an input in slot " + std::to_string(slot));
      }
    }
    op.experts = static_cast<uint32_t>(context_.program().weights[op.down].shape[0]);
    op.top_k = static_cast<uint32_t>(std::max<int64_t>(0, node_.Int("k", 1)));
    ASSIGN_OR_RETURN(op.in, context_.Lower(std::string(node_.Input(0))));
    ASSIGN_OR_RETURN(op.route, is_own_ ? context_.Lower(std::string(node_.Input(1)))
                                       : Route(op.experts, op.top_k));
    op.out = context_.NewBuffer(node_.Output(0), op.in.columns);
    context_.Emit(op);
    return op.out;
  }

 private:
  Result<Activation> OwnKind() const {
    const std::string name(node_.String("activation", ""));
    if (name == "silu") return Activation::kSilu;
    if (name == "gelu_tanh") return Activation::kGeluTanh;
    if (name == "relu2") return Activation::kRelu;
    return Refuse(node_, "has the activation '" + name + "'");
  }

  Result<Activation> Kind() const {
    const float alpha = node_.Float("activation_alpha", 1),
                beta = node_.Float("activation_beta", 0);
    const float limit = node_.Float("swiglu_limit", INFINITY);
    const bool swiglu =
        node_.String("activation_type", "relu") == "swiglu" && node_.Int("swiglu_fusion", 0) == 1;
    if (swiglu && alpha == 1 && beta == 0 && std::isinf(limit)) return Activation::kSilu;
    if (swiglu && alpha == 1.702f && beta == 1 && limit == 7) return Activation::kSwigluOai;
    return Refuse(node_,
                  "has an activation that is neither silu(gate) * up nor "
                  "gpt-oss' over gate and up interleaved");
  }

  Result<WeightId> Matrix(size_t slot, size_t scale_slot, bool interleaved) {
    ASSIGN_OR_RETURN(const Stack data, StackAt(context_, node_, slot, interleaved));
    if (data.dims.size() != 2) return Refuse(node_, "has no matrices for experts");
    Weight weight{data.name, DType::kF32, {data.initializers.size()}, {}, {}, {}};
    weight.shape.push_back(static_cast<uint64_t>(data.dims[0]));
    ASSIGN_OR_RETURN(weight.data, PartsOf(context_, node_, data));
    if (!is_quantised_) {
      const auto dtype = onnx::ToDType(data.type);
      if (!dtype || !onnx::IsFloatType(data.type)) {
        return Refuse(node_, "has experts that are not floats");
      }
      weight.dtype = *dtype;
      weight.shape.push_back(static_cast<uint64_t>(data.dims[1]));
      return context_.AddWeight(std::move(weight));
    }
    const int64_t bits = node_.Int("expert_weight_bits", 4);
    ASSIGN_OR_RETURN(const Stack scale, StackAt(context_, node_, scale_slot, interleaved));
    const int64_t columns = data.dims[1] * 8 / std::max<int64_t>(bits, 1);
    const int64_t scales = scale.dims.size() == 2 ? scale.dims[1] : 0;  // of a row
    const DType form = FormOf(bits, scale.type, scales, columns);
    const bool fits = (bits == 4 || bits == 8) && node_.Int("block_size", 0) == kBlockValues &&
                      data.type == ElementType::kUint8 && columns % kBlockValues == 0 &&
                      AreScales(scale.type, scales, form, columns) &&
                      scale.initializers.size() == data.initializers.size() &&
                      scale.dims[0] == data.dims[0];
    if (!fits) {
      return Refuse(node_, "has experts that are not 4 or 8 bits in blocks of 32 with f16 scales");
    }
    weight.dtype = form;
    weight.shape.push_back(static_cast<uint64_t>(columns));
    ASSIGN_OR_RETURN(weight.scale, PartsOf(context_, node_, scale));
    return context_.AddWeight(std::move(weight));
  }

  Result<WeightId> Bias(size_t slot, bool interleaved) {
    ASSIGN_OR_RETURN(const Stack bias, StackAt(context_, node_, slot, interleaved));
    const auto dtype = onnx::ToDType(bias.type);
    if (bias.dims.size() != 1 || !dtype || !onnx::IsFloatType(bias.type)) {
      return Refuse(node_, "has biases that are not a vector for each expert");
    }
    Weight weight{
        bias.name, *dtype, {bias.initializers.size(), static_cast<uint64_t>(bias.dims[0])},
        {},        {},     {}};
    ASSIGN_OR_RETURN(weight.data, PartsOf(context_, node_, bias));
    return context_.AddWeight(std::move(weight));
  }

  // The router's logits come as rows: Reshape [-1, experts].
  Result<View> Route(uint32_t experts, uint32_t top_k) {
    const Node* rows = context_.ProducerIf(node_.Input(1), "Reshape");
    if (rows == nullptr ||
        Target(context_, *rows) != std::vector<int64_t>{-1, static_cast<int64_t>(experts)}) {
      return Refuse(node_,
                    "takes logits that are not rows of " + std::to_string(experts) + " columns");
    }
    if (node_.Int("use_sparse_mixer", 0) != 0) {
      return Refuse(node_, "chooses experts by a sparse mixer");
    }
    MoeRoute op;
    ASSIGN_OR_RETURN(op.logits, context_.Lower(std::string(rows->Input(0))));
    op.experts = experts;
    op.top_k = top_k;
    const bool divides = node_.Int("normalize_routing_weights", 0) != 0 && !keeps_weights_;
    op.kind = divides ? RouteKind::kSoftmaxTopKNormalized : RouteKind::kSoftmaxTopK;
    op.out = context_.NewBuffer(rows->Output(0), 2 * uint64_t{top_k});
    context_.Emit(op);
    return op.out;
  }

  LoweringContext& context_;
  const Node& node_;
  const bool is_own_;
  const bool is_quantised_;
  const Slots slots_;
  bool keeps_weights_ = false;
};

bool IsConstant(const LoweringContext& context, std::string_view value, int64_t expected) {
  const Tensor* tensor = context.graph().FindInitializer(value);
  return tensor != nullptr && tensor->AsInt64s() == std::vector<int64_t>{expected};
}

// Whether `value` is the sum of the probabilities that `experts` normalises away.
bool IsChosenShare(const LoweringContext& context, const Node& experts, std::string_view value) {
  const Node* sum = context.ProducerIf(value, "ReduceSum");
  const Node* top = sum == nullptr ? nullptr : context.ProducerIf(sum->Input(0), "TopK");
  const Node* softmax = top == nullptr ? nullptr : context.ProducerIf(top->Input(0), "Softmax");
  const Node* rows = context.ProducerIf(experts.Input(1), "Reshape");
  return softmax != nullptr && rows != nullptr && top->Output(0) == sum->Input(0) &&
         softmax->Input(0) == rows->Input(0) && softmax->Int("axis", -1) == -1 &&
         top->Int("axis", -1) == -1 && top->Int("largest", 1) == 1 &&
         IsConstant(context, top->Input(1), experts.Int("k", 1)) &&
         IsConstant(context, sum->Input(1), -1) && sum->Int("keepdims", 1) == 1;
}

}  // namespace

std::optional<Result<View>> LowerScaledExperts(LoweringContext& context, const Node& node) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Node* experts = context.Producer(node.Input(side));
    const bool is_experts = experts != nullptr &&
                            (experts->IsMicrosoft("QMoE") || experts->IsMicrosoft("MoE")) &&
                            experts->Int("normalize_routing_weights", 0) != 0;
    if (!is_experts || !context.IsReadOnce(node.Input(side)) ||
        !IsChosenShare(context, *experts, node.Input(1 - side))) {
      continue;
    }
    ExpertsLowering lowering(context, *experts);
    lowering.KeepWeights();
    return lowering.Run();
  }
  return std::nullopt;
}

Result<View> LowerExperts(LoweringContext& context, const Node& node) {
  return ExpertsLowering(context, node).Run();
}

Result<View> LowerOwnExperts(LoweringContext& context, const Node& node) {
  return ExpertsLowering(context, node).Run();
}

uint32_t CountAttribute(const Node& node, const char* name) {
  const int64_t value = node.Int(name, 0);
  return value > 0 && value < (1 << 24) ? static_cast<uint32_t>(value) : 0;
}

Result<View> LowerRoute(LoweringContext& context, const Node& node) {
  MoeRoute op;
  ASSIGN_OR_RETURN(op.logits, context.Lower(std::string(node.Input(0))));
  op.experts = op.logits.columns;
  op.top_k = CountAttribute(node, "k");
  const bool divides = node.Int("normalize", 0) != 0;
  const std::string scores(node.String("scores", ""));
  if (scores == "softmax") {
    op.kind = divides ? RouteKind::kSoftmaxTopKNormalized : RouteKind::kSoftmaxTopK;
  } else if (scores == "sigmoid") {
    op.kind = divides ? RouteKind::kSigmoidTopKNormalized : RouteKind::kSigmoidTopK;
  } else {
    return Refuse(node, "scores experts by '" + scores + "'");
  }
  op.groups = CountAttribute(node, "groups");
  op.top_groups = CountAttribute(node, "top_groups");
  op.group_best = CountAttribute(node, "group_best");
  op.scale = node.Float("scale", 0);
  if (node.HasInput(1)) {
    ASSIGN_OR_RETURN(op.bias, context.Vector(node, node.Input(1)));
  }
  op.out = context.NewBuffer(node.Output(0), 2 * uint64_t{op.top_k});
  context.Emit(op);
  return op.out;
}

}  // namespace weft::lower
