#include "onnx/side_shapes.h"

#include <algorithm>

#include "onnx/validate.h"

namespace weft::onnx {
namespace {

constexpr int kMaxSteps = 48;

using Kind = DimSource::Kind;

DimSource Constant(int64_t value) {
  return {Kind::kConstant, value, {}};
}

bool IsOneOf(const Node& node, std::initializer_list<std::string_view> ops) {
  if (!node.domain.empty()) return false;
  return std::find(ops.begin(), ops.end(), std::string_view(node.op_type)) != ops.end();
}

// Output 0 has the shape of input 0.
bool KeepsShape(const Node& node) {
  return IsOneOf(node, {"Cast",
                        "CastLike",
                        "Identity",
                        "Dropout",
                        "Neg",
                        "Abs",
                        "Sqrt",
                        "Exp",
                        "Log",
                        "Erf",
                        "Tanh",
                        "Sigmoid",
                        "Relu",
                        "Gelu",
                        "Reciprocal",
                        "Not",
                        "IsNaN",
                        "Softmax",
                        "Clip",
                        "Sin",
                        "Cos",
                        "LayerNormalization",
                        "SimplifiedLayerNormalization",
                        "RMSNormalization",
                        "RotaryEmbedding",
                        "CumSum",
                        "DequantizeLinear",
                        "QuantizeLinear",
                        "DynamicQuantizeLinear"}) ||
         node.IsMicrosoft("SkipSimplifiedLayerNormalization") ||
         node.IsMicrosoft("SkipLayerNormalization") || node.IsMicrosoft("QuickGelu") ||
         node.IsMicrosoft("Gelu") || node.IsMicrosoft("FastGelu") ||
         node.IsMicrosoft("RotaryEmbedding") || node.IsMicrosoft("MoE") || node.IsMicrosoft("QMoE");
}

bool Broadcasts(const Node& node) {
  return IsOneOf(node,
                 {"Add", "Sub", "Mul", "Div", "Pow", "Where", "And", "Or", "Xor", "Equal", "Less",
                  "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "Sum", "Mod"});
}

bool IsSequenceAxis(const ValueInfo& in, const ValueInfo& out, size_t axis) {
  const Dim& before = (*in.shape)[axis];
  const Dim& after = (*out.shape)[axis];
  return !before.known() && !after.known() && axis > 0 && before != after;
}

}  // namespace

ShapeFinder::ShapeFinder(const LayeredModel& layered, const GraphIndex& index)
    : layered_(layered), graph_(layered.model.graph), index_(index) {
  // Later entries do not replace earlier ones: the tokens input names batch and sequence first.
  const ValueInfo* tokens = graph_.FindInput(layered.io.tokens);
  const auto learn = [&](const ValueInfo& input) {
    if (const Dims dims = FromInput(input); dims && input.shape) {
      for (size_t i = 0; i < std::min(dims->size(), input.shape->size()); ++i) {
        const Dim& dim = (*input.shape)[i];
        if (!dim.known() && !dim.symbol.empty()) symbols_.emplace(dim.symbol, (*dims)[i]);
      }
    }
  };
  if (tokens != nullptr) learn(*tokens);
  for (const ValueInfo& input : graph_.inputs) learn(input);
  for (const ValueInfo& output : graph_.outputs) {
    const Dims dims = FromStateOutput(output);
    for (size_t i = 0; dims && i < dims->size(); ++i) {
      const Dim& dim = (*output.shape)[i];
      if (!dim.known() && !dim.symbol.empty()) symbols_.emplace(dim.symbol, (*dims)[i]);
    }
  }
}

ShapeFinder::Dims ShapeFinder::FromInput(const ValueInfo& input) const {
  if (input.name == layered_.io.tokens) {
    std::vector<DimSource> dims = {{Kind::kBatch, 0, {}}, {Kind::kSequence, 0, {}}};
    if (input.shape && input.shape->size() == 3) dims.push_back({Kind::kHidden, 0, {}});
    return dims;
  }
  if (!input.shape) return std::nullopt;
  const bool is_state = layered_.io.StateLayer(input.name) >= 0;
  std::vector<DimSource> dims;
  for (size_t i = 0; i < input.shape->size(); ++i) {
    const Dim& dim = (*input.shape)[i];
    const auto axis = static_cast<int64_t>(i);
    if (dim.known()) {
      dims.push_back(Constant(dim.value));
    } else if (is_state && i == 0) {
      dims.push_back({Kind::kBatch, 0, {}});
    } else if (is_state) {
      dims.push_back({Kind::kPast, axis, {}});
    } else {
      dims.push_back({Kind::kInputAxis, axis, input.name});
    }
  }
  return dims;
}

ShapeFinder::Dims ShapeFinder::FromStateOutput(const ValueInfo& output) const {
  const int layer = layered_.io.StateLayer(output.name);
  if (layer < 0 || !output.shape) return std::nullopt;
  const auto& state = layered_.io.states[static_cast<size_t>(layer)];
  const ValueInfo* input = graph_.FindInput(state.inputs.front());
  if (input == nullptr || !input->shape || input->shape->size() != output.shape->size()) {
    return std::nullopt;
  }
  Dims dims = FromInput(*input);
  if (!dims) return std::nullopt;
  bool grows = false;
  for (size_t i = 0; i < dims->size(); ++i) {
    if (!IsSequenceAxis(*input, output, i)) continue;
    (*dims)[i] = {Kind::kPastGrown, static_cast<int64_t>(i), {}};
    grows = true;
  }
  if (!grows) return std::nullopt;
  return dims;
}

ShapeFinder::Dims ShapeFinder::FromDeclaration(std::string_view value) const {
  const ValueInfo* info = graph_.FindValueInfo(value);
  if (info == nullptr || !info->shape) return std::nullopt;
  std::vector<DimSource> dims;
  for (const Dim& dim : *info->shape) {
    if (dim.known()) {
      dims.push_back(Constant(dim.value));
      continue;
    }
    const auto it = symbols_.find(dim.symbol);
    if (it == symbols_.end()) return std::nullopt;
    dims.push_back(it->second);
  }
  return dims;
}

ShapeFinder::Dims ShapeFinder::Find(std::string_view value, int steps) const {
  if (value.empty() || steps > kMaxSteps) return std::nullopt;
  for (const Boundary& boundary : layered_.boundaries) {
    if (boundary.value != value) continue;
    return std::vector<DimSource>{
        {Kind::kBatch, 0, {}}, {Kind::kSequence, 0, {}}, {Kind::kHidden, 0, {}}};
  }
  if (const Tensor* tensor = graph_.FindInitializer(value)) {
    std::vector<DimSource> dims;
    for (const int64_t dim : tensor->dims) dims.push_back(Constant(dim));
    return dims;
  }
  if (const ValueInfo* input = graph_.FindInput(value)) return FromInput(*input);
  if (const ValueInfo* output = graph_.FindOutput(value)) {
    if (Dims dims = FromStateOutput(*output)) return dims;
  }
  if (const Node* node = index_.ProducerNode(value)) {
    if (Dims dims = FromNode(*node, value, steps)) return dims;
  }
  return FromDeclaration(value);
}

ShapeFinder::Dims ShapeFinder::FromNode(const Node& node, std::string_view value, int steps) const {
  if (KeepsShape(node) && value == node.Output(0)) return Find(node.Input(0), steps + 1);
  if (Broadcasts(node)) return FromBroadcast(node, steps);
  if (node.Is("Transpose")) {
    const Dims from = Find(node.Input(0), steps + 1);
    if (!from) return std::nullopt;
    std::vector<int64_t> order = node.Ints("perm");
    if (order.size() != from->size()) return std::nullopt;
    std::vector<DimSource> dims;
    for (const int64_t axis : order) {
      if (axis < 0 || axis >= static_cast<int64_t>(from->size())) return std::nullopt;
      dims.push_back((*from)[static_cast<size_t>(axis)]);
    }
    return dims;
  }
  return FromWeight(node, steps);
}

// Equal or constant-1 dimensions broadcast without knowing more.
ShapeFinder::Dims ShapeFinder::FromBroadcast(const Node& node, int steps) const {
  if (node.inputs.size() > 3)
    return std::nullopt;  // keeps the walk small: real ones have two or three
  Dims result;
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    Dims next = Find(input, steps + kMaxSteps / 8);
    if (!next) return std::nullopt;
    if (!result) {
      result = std::move(next);
      continue;
    }
    if (next->size() > result->size()) std::swap(*next, *result);
    for (size_t i = 0; i < next->size(); ++i) {
      DimSource& a = (*result)[result->size() - 1 - i];
      const DimSource& b = (*next)[next->size() - 1 - i];
      if (a == b || b == Constant(1)) continue;
      if (a == Constant(1)) {
        a = b;
        continue;
      }
      return std::nullopt;
    }
  }
  return result;
}

// Products with a weight and table lookups: the last dimension is the weight's.
ShapeFinder::Dims ShapeFinder::FromWeight(const Node& node, int steps) const {
  size_t data_input = 0;
  int64_t columns = -1;
  if (IsOneOf(node, {"MatMul", "MatMulInteger"}) || node.IsMicrosoft("MatMulNBits")) {
    const Tensor* weight = graph_.FindInitializer(node.Input(1));
    if (weight == nullptr) return std::nullopt;
    const bool plain = node.domain.empty();
    if (plain && weight->dims.size() != 2) return std::nullopt;
    columns = plain ? weight->dims[1] : node.Int("N", -1);
    Dims dims = Find(node.Input(data_input), steps + 1);
    if (!dims || dims->size() < 2 || columns < 0) return std::nullopt;
    dims->back() = Constant(columns);
    return dims;
  }
  if (node.Is("Gather") && node.Int("axis", 0) == 0) {
    const Tensor* table = graph_.FindInitializer(node.Input(0));
    if (table == nullptr || table->dims.empty()) return std::nullopt;
    Dims dims = Find(node.Input(1), steps + 1);
    if (!dims) return std::nullopt;
    for (size_t i = 1; i < table->dims.size(); ++i) dims->push_back(Constant(table->dims[i]));
    return dims;
  }
  if (node.IsMicrosoft("GatherBlockQuantized") && node.Output(0) == layered_.embedding) {
    Dims dims = Find(node.Input(1), steps + 1);
    if (dims) dims->push_back({Kind::kHidden, 0, {}});
    return dims;
  }
  return std::nullopt;
}

std::string ShapeBuilder::Add(const char* op, std::vector<std::string> inputs) {
  Node node;
  node.op_type = op;
  node.name = "weft/shape_" + std::to_string(nodes_.size());
  node.inputs = std::move(inputs);
  node.outputs = {node.name};
  std::string output = node.name;
  nodes_.push_back(std::move(node));
  return output;
}

std::string ShapeBuilder::Constant(int64_t value) {
  std::string name = "weft/constant_" + std::to_string(value);
  initializers_.emplace(name, Tensor::FromInt64s({1}, {value}));
  return name;
}

std::string ShapeBuilder::AxisOf(const std::string& value, int64_t axis) {
  auto it = shapes_.find(value);
  if (it == shapes_.end()) it = shapes_.emplace(value, Add("Shape", {value})).first;
  std::string output = Add("Gather", {it->second, Constant(axis)});
  nodes_.back().attributes.push_back(Attribute::Of("axis", 0));
  return output;
}

Result<std::string> ShapeBuilder::Vector(const DimSource& dim) {
  if (const auto it = made_.find(dim); it != made_.end()) return it->second;
  ASSIGN_OR_RETURN(std::string name, Compute(dim));
  made_.emplace(dim, name);
  return name;
}

Result<std::string> ShapeBuilder::Compute(const DimSource& dim) {
  switch (dim.kind) {
    case Kind::kConstant:
      return Constant(dim.value);
    case Kind::kBatch:
      return AxisOf(sources_.stream, 0);
    case Kind::kSequence:
      return AxisOf(sources_.stream, 1);
    case Kind::kHidden:
      if (!sources_.stream_has_hidden) break;
      return AxisOf(sources_.stream, 2);
    case Kind::kPast:
      if (!sources_.state.empty()) return AxisOf(sources_.state, dim.value);
      // Without a cache of its own the part knows the past as what the mask covers before this
      // call.
      if (dim.value == 2 && !sources_.attention_mask.empty()) {
        const std::string total = AxisOf(sources_.attention_mask, 1);
        ASSIGN_OR_RETURN(std::string sequence, Vector({Kind::kSequence, 0, {}}));
        return Add("Sub", {total, std::move(sequence)});
      }
      break;
    case Kind::kPastGrown: {
      ASSIGN_OR_RETURN(std::string past, Vector({Kind::kPast, dim.value, {}}));
      ASSIGN_OR_RETURN(std::string sequence, Vector({Kind::kSequence, 0, {}}));
      return Add("Add", {std::move(past), std::move(sequence)});
    }
    case Kind::kInputAxis:
      return AxisOf(dim.name, dim.value);
  }
  return Error(ErrorCode::kUnsupported,
               "A part without caches of its own needs a dimension that only a cache has.");
}

Status ShapeBuilder::Build(const std::vector<DimSource>& dims, const std::string& output) {
  std::vector<std::string> parts;
  for (const DimSource& dim : dims) {
    ASSIGN_OR_RETURN(std::string name, Vector(dim));
    parts.push_back(std::move(name));
  }
  if (parts.empty()) {  // a scalar's shape
    initializers_.emplace("weft/no_dims", Tensor::FromInt64s({0}, {}));
    parts.push_back("weft/no_dims");
  }
  Add("Concat", std::move(parts));
  nodes_.back().attributes.push_back(Attribute::Of("axis", 0));
  nodes_.back().outputs = {output};
  return OkStatus();
}

}  // namespace weft::onnx
