#include "onnx/infer.h"

#include <algorithm>
#include <optional>

namespace weft::onnx {
namespace {

// Steps of the walk towards the inputs; a residual stream's width is found within a few.
constexpr int kMaxSteps = 64;

ElementType Declared(const Graph& graph, std::string_view value) {
  if (const Tensor* tensor = graph.FindInitializer(value)) return tensor->type;
  const ValueInfo* info = graph.FindValueInfo(value);
  return info == nullptr ? ElementType::kUndefined : info->type;
}

bool GivesBool(const Node& node) {
  for (const std::string_view op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
                                    "And", "Or", "Not", "Xor", "IsNaN", "IsInf"}) {
    if (node.Is(op)) return true;
  }
  return false;
}

// The input whose element type the node's output 0 has.
size_t TypeInput(const Node& node) {
  if (node.Is("Where") || node.Is("CastLike")) return 1;
  if (node.Is("DequantizeLinear")) return 1;
  if (node.IsMicrosoft("GatherBlockQuantized")) return 2;
  if (node.Is("OneHot")) return 2;
  return 0;
}

// What the op alone tells about its output; nullopt when it has the type of an input.
std::optional<ElementType> TypeFromOp(const Node& node) {
  if (node.Is("Cast")) return static_cast<ElementType>(node.Int("to", 0));
  if (node.Is("Shape") || node.Is("Size")) return ElementType::kInt64;
  if (node.Is("MatMulInteger")) return ElementType::kInt32;
  if (GivesBool(node)) return ElementType::kBool;
  if (node.Is("ConstantOfShape")) {
    const Tensor* fill = node.TensorAttribute("value");
    return fill == nullptr ? ElementType::kFloat : fill->type;
  }
  return std::nullopt;
}

bool IsElementwise(const Node& node) {
  for (const std::string_view op :
       {"Add", "Sub", "Mul", "Div", "Pow", "Sum", "Where", "Max", "Min"}) {
    if (node.Is(op)) return true;
  }
  return false;
}

int64_t LastOf(const Tensor* tensor) {
  return tensor == nullptr || tensor->dims.empty() ? -1 : tensor->dims.back();
}

// Columns that a node's weight gives its output; -1 when it has none or does not change them.
int64_t ColumnsFromWeight(const Graph& graph, const Node& node) {
  if (node.Is("MatMul") || node.Is("MatMulInteger") || node.IsMicrosoft("FusedMatMul")) {
    const Tensor* weight = graph.FindInitializer(node.Input(1));
    if (weight == nullptr || weight->dims.size() != 2) return -1;
    return node.Int("transB", 0) != 0 ? weight->dims[0] : weight->dims[1];
  }
  if (node.Is("Gemm")) {
    const Tensor* weight = graph.FindInitializer(node.Input(1));
    if (weight == nullptr || weight->dims.size() != 2) return -1;
    return weight->dims[node.Int("transB", 0) != 0 ? 0 : 1];
  }
  if (node.IsMicrosoft("MatMulNBits")) return node.Int("N", -1);
  if (node.Is("Gather") && node.Int("axis", 0) == 0)
    return LastOf(graph.FindInitializer(node.Input(0)));
  const bool norm = node.Is("SimplifiedLayerNormalization") || node.Is("LayerNormalization") ||
                    node.Is("RMSNormalization");
  if (norm) return LastOf(graph.FindInitializer(node.Input(1)));
  const bool skip_norm = node.IsMicrosoft("SkipSimplifiedLayerNormalization") ||
                         node.IsMicrosoft("SkipLayerNormalization");
  if (skip_norm) return LastOf(graph.FindInitializer(node.Input(2)));
  return -1;
}

int64_t LastDimOf(const Graph& graph, const GraphIndex& index, std::string_view value, int steps) {
  if (value.empty() || steps > kMaxSteps) return -1;
  if (const Tensor* tensor = graph.FindInitializer(value)) return LastOf(tensor);
  const ValueInfo* info = graph.FindValueInfo(value);
  if (info != nullptr && info->shape && !info->shape->empty() && info->shape->back().known()) {
    return info->shape->back().value;
  }
  const Node* node = index.ProducerNode(value);
  if (node == nullptr) return -1;
  const int64_t columns = ColumnsFromWeight(graph, *node);
  if (columns > 0) return columns;
  if (IsElementwise(*node)) {
    // Broadcasting: the larger one wins; the shortest way to an answer is usually the last operand.
    // Each operand gets a share of the steps so that residual chains stay linear.
    for (size_t i = std::min<size_t>(node->inputs.size(), 3); i-- > 0;) {
      const int64_t last = LastDimOf(graph, index, node->Input(i), steps + kMaxSteps / 4);
      if (last > 1) return last;
    }
    return -1;
  }
  if (node->Is("Cast") || node->Is("Identity") || node->Is("Dropout") || node->Is("CastLike")) {
    return LastDimOf(graph, index, node->Input(0), steps + 1);
  }
  return -1;
}

}  // namespace

ElementType InferType(const Graph& graph, const GraphIndex& index, std::string_view value) {
  // Towards the inputs, one operand at a time; a graph without cycles ends. Residual streams of
  // deep models are long.
  for (size_t steps = 0; !value.empty() && steps <= graph.nodes.size(); ++steps) {
    const ElementType declared = Declared(graph, value);
    if (declared != ElementType::kUndefined) return declared;
    const Node* node = index.ProducerNode(value);
    if (node == nullptr) break;
    if (const auto type = TypeFromOp(*node)) return *type;
    value = node->Input(TypeInput(*node));
  }
  return ElementType::kUndefined;
}

int64_t InferLastDim(const Graph& graph, const GraphIndex& index, std::string_view value) {
  return LastDimOf(graph, index, value, 0);
}

}  // namespace weft::onnx
