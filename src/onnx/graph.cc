#include "onnx/graph.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft::onnx {
namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};

// Indexed by TensorProto.DataType.
constexpr TypeRow kTypes[] = {
    {"undefined", 0},      {"float", 32},       {"uint8", 8},          {"int8", 8},
    {"uint16", 16},        {"int16", 16},       {"int32", 32},         {"int64", 64},
    {"string", 0},         {"bool", 8},         {"float16", 16},       {"double", 64},
    {"uint32", 32},        {"uint64", 64},      {"complex64", 64},     {"complex128", 128},
    {"bfloat16", 16},      {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8},
    {"float8e5m2fnuz", 8}, {"uint4", 4},        {"int4", 4},           {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},        {"int2", 2},
};

const TypeRow* FindType(ElementType type) {
  const auto number = static_cast<int32_t>(type);
  if (number < 0 || number >= static_cast<int32_t>(std::size(kTypes))) return nullptr;
  return &kTypes[number];
}

template <typename T>
Tensor FromValues(ElementType type, std::vector<int64_t> dims, std::span<const T> values) {
  const ByteSpan bytes = AsBytes(values);
  return Tensor::FromBytes(type, std::move(dims),
                           Slice(std::vector<uint8_t>(bytes.begin(), bytes.end())));
}

template <typename T, typename Out>
std::vector<Out> Widen(ByteSpan bytes) {
  std::vector<Out> out(bytes.size() / sizeof(T));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<Out>(LoadLe<T>(bytes.data() + i * sizeof(T)));
  }
  return out;
}

template <typename Out>
std::optional<std::vector<Out>> WidenIntegers(const Tensor& tensor) {
  if (!tensor.has_data()) return std::nullopt;
  const ByteSpan bytes = tensor.data.bytes();
  switch (tensor.type) {
    case ElementType::kBool:
    case ElementType::kUint8:
      return Widen<uint8_t, Out>(bytes);
    case ElementType::kInt8:
      return Widen<int8_t, Out>(bytes);
    case ElementType::kUint16:
      return Widen<uint16_t, Out>(bytes);
    case ElementType::kInt16:
      return Widen<int16_t, Out>(bytes);
    case ElementType::kUint32:
      return Widen<uint32_t, Out>(bytes);
    case ElementType::kInt32:
      return Widen<int32_t, Out>(bytes);
    case ElementType::kUint64:
      return Widen<uint64_t, Out>(bytes);
    case ElementType::kInt64:
      return Widen<int64_t, Out>(bytes);
    default:
      return std::nullopt;
  }
}

template <typename T>
const T* FindValue(const Node& node, std::string_view attribute_name) {
  const Attribute* attribute = node.Find(attribute_name);
  return attribute == nullptr ? nullptr : std::get_if<T>(&attribute->value);
}

const ValueInfo* FindIn(const std::vector<ValueInfo>& values, std::string_view name) {
  for (const ValueInfo& value : values) {
    if (value.name == name) return &value;
  }
  return nullptr;
}

// Adds the names that `graph` reads but does not make itself. Depth is bounded by the loader.
void AddOuterReads(const Graph& graph, std::vector<std::string>& names) {
  std::set<std::string_view> made;
  for (const ValueInfo& input : graph.inputs) made.insert(input.name);
  for (const auto& [name, tensor] : graph.initializers) made.insert(name);
  for (const Node& node : graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  for (const Node& node : graph.nodes) {
    for (std::string& name : ReadNames(node)) {
      if (!made.contains(name)) names.push_back(std::move(name));
    }
  }
  for (const ValueInfo& output : graph.outputs) {
    if (!made.contains(output.name)) names.push_back(output.name);
  }
}

}  // namespace

std::string_view ElementTypeName(ElementType type) {
  const TypeRow* row = FindType(type);
  return row == nullptr ? "unknown" : row->name;
}

int ElementBits(ElementType type) {
  const TypeRow* row = FindType(type);
  return row == nullptr ? 0 : row->bits;
}

bool IsFloatType(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kFloat16 ||
         type == ElementType::kBFloat16 || type == ElementType::kDouble;
}

std::optional<DType> ToDType(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return DType::kF32;
    case ElementType::kFloat16:
      return DType::kF16;
    case ElementType::kBFloat16:
      return DType::kBF16;
    case ElementType::kInt32:
      return DType::kI32;
    case ElementType::kInt64:
      return DType::kI64;
    case ElementType::kUint8:
      return DType::kU8;
    case ElementType::kInt8:
      return DType::kI8;
    case ElementType::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

ElementType FromDType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ElementType::kFloat;
    case DType::kF16:
      return ElementType::kFloat16;
    case DType::kBF16:
      return ElementType::kBFloat16;
    case DType::kI32:
      return ElementType::kInt32;
    case DType::kI64:
      return ElementType::kInt64;
    case DType::kU8:
      return ElementType::kUint8;
    case DType::kI8:
      return ElementType::kInt8;
    case DType::kBool:
      return ElementType::kBool;
    case DType::kQ8:
    case DType::kQ4:
    case DType::kQ4S:
    case DType::kQ4K:
    case DType::kQ5K:
    case DType::kQ6K:
      break;
  }
  CHECK(false, "block formats have no ONNX element type");
  return ElementType::kUndefined;
}

std::optional<uint64_t> TensorByteCount(ElementType type, std::span<const int64_t> dims) {
  const int bits = ElementBits(type);
  if (bits == 0) return std::nullopt;
  // A zero dimension makes the product zero, but the others must still be sane.
  uint64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    const std::optional<uint64_t> product = CheckedMul(elements, static_cast<uint64_t>(dim));
    if (!product) return std::nullopt;
    elements = *product;
  }
  const std::optional<uint64_t> total_bits = CheckedMul(elements, static_cast<uint64_t>(bits));
  if (!total_bits) return std::nullopt;
  return *total_bits / 8 + (*total_bits % 8 == 0 ? 0 : 1);
}

Tensor Tensor::FromFloats(std::vector<int64_t> dims, std::span<const float> values) {
  return FromValues(ElementType::kFloat, std::move(dims), values);
}

Tensor Tensor::FromInt64s(std::vector<int64_t> dims, std::span<const int64_t> values) {
  return FromValues(ElementType::kInt64, std::move(dims), values);
}

Tensor Tensor::FromInt64s(std::vector<int64_t> dims, std::initializer_list<int64_t> values) {
  return FromInt64s(std::move(dims), std::span<const int64_t>(values.begin(), values.size()));
}

Tensor Tensor::FromBytes(ElementType type, std::vector<int64_t> dims, Slice bytes) {
  const std::optional<uint64_t> expected = TensorByteCount(type, dims);
  CHECK(expected && *expected == bytes.byte_count(), "a tensor's bytes must fit its shape");
  Tensor tensor;
  tensor.type = type;
  tensor.dims = std::move(dims);
  tensor.data = std::move(bytes);
  tensor.byte_count = *expected;
  return tensor;
}

Tensor Tensor::At(ElementType type, std::vector<int64_t> dims, std::string location,
                  uint64_t offset) {
  const std::optional<uint64_t> byte_count = TensorByteCount(type, dims);
  CHECK(byte_count.has_value(), "a tensor elsewhere needs a fixed size");
  Tensor tensor;
  tensor.type = type;
  tensor.dims = std::move(dims);
  tensor.byte_count = *byte_count;
  tensor.location = std::move(location);
  tensor.offset = offset;
  return tensor;
}

int64_t Tensor::element_count() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

std::optional<std::vector<int64_t>> Tensor::AsInt64s() const {
  return WidenIntegers<int64_t>(*this);
}

std::optional<std::vector<float>> Tensor::AsFloats() const {
  if (!has_data()) return std::nullopt;
  if (type == ElementType::kDouble) return Widen<double, float>(data.bytes());
  const std::optional<DType> dtype = ToDType(type);
  if (dtype && IsFloatType(type)) {
    std::vector<float> out(static_cast<size_t>(element_count()));
    ToF32(*dtype, data.bytes().data(), out);
    return out;
  }
  return WidenIntegers<float>(*this);
}

std::string_view Node::Input(size_t i) const {
  return i < inputs.size() ? std::string_view(inputs[i]) : std::string_view();
}

std::string_view Node::Output(size_t i) const {
  return i < outputs.size() ? std::string_view(outputs[i]) : std::string_view();
}

const Attribute* Node::Find(std::string_view attribute_name) const {
  for (const Attribute& attribute : attributes) {
    if (attribute.name == attribute_name) return &attribute;
  }
  return nullptr;
}

int64_t Node::Int(std::string_view attribute_name, int64_t if_absent) const {
  const auto* value = FindValue<int64_t>(*this, attribute_name);
  return value == nullptr ? if_absent : *value;
}

float Node::Float(std::string_view attribute_name, float if_absent) const {
  const auto* value = FindValue<float>(*this, attribute_name);
  return value == nullptr ? if_absent : *value;
}

std::string_view Node::String(std::string_view attribute_name, std::string_view if_absent) const {
  const auto* value = FindValue<std::string>(*this, attribute_name);
  return value == nullptr ? if_absent : std::string_view(*value);
}

std::vector<int64_t> Node::Ints(std::string_view attribute_name,
                                std::vector<int64_t> if_absent) const {
  const auto* value = FindValue<std::vector<int64_t>>(*this, attribute_name);
  if (value == nullptr) return if_absent;
  return *value;
}

std::vector<float> Node::Floats(std::string_view attribute_name,
                                std::vector<float> if_absent) const {
  const auto* value = FindValue<std::vector<float>>(*this, attribute_name);
  if (value == nullptr) return if_absent;
  return *value;
}

const Tensor* Node::TensorAttribute(std::string_view attribute_name) const {
  return FindValue<Tensor>(*this, attribute_name);
}

void Node::Set(Attribute attribute) {
  for (Attribute& existing : attributes) {
    if (existing.name == attribute.name) {
      existing = std::move(attribute);
      return;
    }
  }
  attributes.push_back(std::move(attribute));
}

std::string Node::Describe(int64_t node_index) const {
  std::string text = "node ";
  if (node_index >= 0) text += std::to_string(node_index) + " ";
  text += "'" + name + "' (";
  if (!domain.empty()) text += domain + ".";
  return text + op_type + ")";
}

size_t Graph::AddNode(std::string op_type, std::vector<std::string> node_inputs,
                      std::vector<std::string> node_outputs, std::vector<Attribute> attributes,
                      std::string domain, std::string node_name) {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = std::move(domain);
  node.name = std::move(node_name);
  node.inputs = std::move(node_inputs);
  node.outputs = std::move(node_outputs);
  node.attributes = std::move(attributes);
  nodes.push_back(std::move(node));
  return nodes.size() - 1;
}

void Graph::AddInput(std::string input_name, ElementType type, std::vector<Dim> shape) {
  inputs.push_back({std::move(input_name), type, std::move(shape), {}});
}

void Graph::AddOutput(std::string output_name, ElementType type, std::vector<Dim> shape) {
  outputs.push_back({std::move(output_name), type, std::move(shape), {}});
}

void Graph::AddInitializer(std::string tensor_name, Tensor tensor) {
  initializers.insert_or_assign(std::move(tensor_name), std::move(tensor));
}

const Tensor* Graph::FindInitializer(std::string_view tensor_name) const {
  const auto it = initializers.find(tensor_name);
  return it == initializers.end() ? nullptr : &it->second;
}

const ValueInfo* Graph::FindInput(std::string_view input_name) const {
  return FindIn(inputs, input_name);
}

const ValueInfo* Graph::FindOutput(std::string_view output_name) const {
  return FindIn(outputs, output_name);
}

const ValueInfo* Graph::FindValueInfo(std::string_view value_name) const {
  if (const ValueInfo* input = FindInput(value_name)) return input;
  if (const ValueInfo* output = FindOutput(value_name)) return output;
  const auto it = value_infos.find(value_name);
  return it == value_infos.end() ? nullptr : &it->second;
}

std::vector<std::string> ReadNames(const Node& node) {
  std::vector<std::string> all = node.inputs;
  for (const Attribute& attribute : node.attributes) {
    if (const auto* graph = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
      AddOuterReads(**graph, all);
    }
  }
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (std::string& name : all) {
    if (!name.empty() && seen.insert(name).second) names.push_back(name);
  }
  return names;
}

GraphIndex::GraphIndex(const Graph& graph) : graph_(graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& output : graph.nodes[i].outputs) {
      if (!output.empty()) producers_.emplace(output, static_cast<int64_t>(i));
    }
    for (std::string& name : ReadNames(graph.nodes[i])) consumers_[std::move(name)].push_back(i);
  }
}

int64_t GraphIndex::Producer(std::string_view name) const {
  const auto it = producers_.find(name);
  return it == producers_.end() ? -1 : it->second;
}

const Node* GraphIndex::ProducerNode(std::string_view name) const {
  const int64_t index = Producer(name);
  return index < 0 ? nullptr : &graph_.nodes[static_cast<size_t>(index)];
}

std::span<const size_t> GraphIndex::Consumers(std::string_view name) const {
  const auto it = consumers_.find(name);
  if (it == consumers_.end()) return {};
  return it->second;
}

}  // namespace weft::onnx
