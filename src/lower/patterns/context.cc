#include "lower/patterns/context.h"

#include <algorithm>

#include "lower/refuse.h"
#include "program/op_views.h"

namespace weft::lower {
namespace {

using onnx::Node;
using onnx::Tensor;

// Deeper chains than any layer has: a hostile graph must not exhaust the stack.
constexpr int kMaxDepth = 500;

bool IsCastToFloat(const Node& node) {
  return node.Is("Identity") ||
         (node.Is("Cast") && onnx::IsFloatType(static_cast<onnx::ElementType>(node.Int("to", 0))));
}

}  // namespace

LoweringContext::LoweringContext(const onnx::Graph& part, uint32_t layer_index,
                                 RuleFinder find_rule)
    : graph_(part), find_rule_(find_rule), index_(part) {
  program_.layer_index = layer_index;
}

const Node* LoweringContext::ProducerIf(std::string_view value, std::string_view op) const {
  const Node* node = Producer(value);
  return node != nullptr && node->Is(op) ? node : nullptr;
}

bool LoweringContext::IsReadOnce(std::string_view value) const {
  return index_.Consumers(value).size() == 1 && graph_.FindOutput(value) == nullptr;
}

std::string LoweringContext::ThroughCasts(std::string_view value) const {
  std::string name(value);
  for (const Node* node = Producer(name); node != nullptr && IsCastToFloat(*node);
       node = Producer(name)) {
    name = node->Input(0);
  }
  return name;
}

const Tensor* LoweringContext::FindConstant(std::string_view value) const {
  return graph_.FindInitializer(ThroughCasts(value));
}

View LoweringContext::NewBuffer(std::string_view name, uint64_t columns) {
  program_.buffers.push_back({std::string(name), static_cast<uint32_t>(columns)});
  return {static_cast<BufferId>(program_.buffers.size() - 1), 0, static_cast<uint32_t>(columns)};
}

void LoweringContext::MoveBuffer(BufferId from, const View& to) {
  const auto move = [&](View& view) {
    if (view.buffer != from) return;
    view.buffer = to.buffer;
    view.first_column += to.first_column;
  };
  for (Op& op : program_.ops) {
    program::VisitViews(op, [&](View& view, bool) { move(view); });
  }
  for (auto& [value, view] : views_) move(view);
}

Result<View> LoweringContext::Lower(const std::string& value) {
  if (const auto known = views_.find(value); known != views_.end()) return known->second;
  if (++depth_ > kMaxDepth) {
    return Error(ErrorCode::kUnsupported,
                 "The layer is a chain of more than " + std::to_string(kMaxDepth) + " operators.");
  }
  auto view = LowerProducer(value);
  --depth_;
  if (view.ok()) views_[value] = *view;
  return view;
}

Result<View> LoweringContext::LowerProducer(const std::string& value) {
  const std::string source = ThroughCasts(value);
  if (source != value) return Lower(source);
  const Node* node = Producer(value);
  if (node == nullptr) {
    return Error(ErrorCode::kUnsupported,
                 "The value '" + value +
                     "' is used as a hidden value, but it is an input or a constant of the layer.");
  }
  const Rule rule = find_rule_(*node);
  if (rule == nullptr) {
    return Refuse(*node, "is an operator that no operation of a program stands for");
  }
  if (node->Output(0) != value && !views_.contains(value)) {
    return Refuse(*node, "gives out '" + value + "', which no operation of a program does");
  }
  return rule(*this, *node);
}

Result<Part> PartOf(const Node& node, std::string_view name, const Tensor& tensor) {
  const auto digest = FromHex(tensor.location);
  Part part;
  if (!digest || digest->size() != part.digest.size()) {
    return Refuse(node,
                  "reads the weight '" + std::string(name) + "', which does not lie in a blob");
  }
  std::copy(digest->begin(), digest->end(), part.digest.begin());
  part.offset = tensor.offset;
  part.byte_count = tensor.byte_count;
  return part;
}

WeightId LoweringContext::AddWeight(Weight weight) {
  const auto [entry, added] =
      weight_ids_.emplace(weight.name, static_cast<WeightId>(program_.weights.size()));
  if (added) program_.weights.push_back(std::move(weight));
  return entry->second;
}

Result<WeightId> LoweringContext::Vector(const Node& node, std::string_view value) {
  const std::string name = ThroughCasts(value);
  const Tensor* tensor = graph_.FindInitializer(name);
  if (tensor == nullptr) {
    return Refuse(node, "has '" + std::string(value) + "' where a constant vector was expected");
  }
  const std::optional<DType> dtype = onnx::ToDType(tensor->type);
  if (!dtype || !onnx::IsFloatType(tensor->type) || tensor->dims.size() != 1) {
    return Refuse(node, "has a constant '" + name + "' that is not a vector of floats");
  }
  ASSIGN_OR_RETURN(const Part part, PartOf(node, name, *tensor));
  return AddWeight({name, *dtype, {static_cast<uint64_t>(tensor->dims[0])}, {part}, {}, {}});
}

}  // namespace weft::lower
