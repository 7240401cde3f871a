#include "onnx/infer.h"

#include <optional>

namespace weft::onnx {
namespace {

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

// A table of superblocks has records of u8 in the place of scales, which have the type of values.
bool LooksUpRecords(const Graph& graph, const Node& node) {
  return node.IsMicrosoft("GatherBlockQuantized") &&
         Declared(graph, node.Input(2)) == ElementType::kUint8;
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
    if (LooksUpRecords(graph, *node)) return ElementType::kFloat;
    value = node->Input(TypeInput(*node));
  }
  return ElementType::kUndefined;
}

}  // namespace weft::onnx
