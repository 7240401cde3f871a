// An ONNX model in memory is what load.h reads, extract.h cuts and write.h writes. The modules
// `lower` and `convert` read or build it. It is plain data, whose only invariant is that names of
// initializers are unique (they are map keys). load.h validates files. The order of nodes is the
// owner's choice (topological after LoadModel). Weights are never copied: a Tensor's `data` is a
// Slice of the file it lies in.
//
//   Graph graph;
//   graph.AddInput("x", ElementType::kFloat, {Dim::Of(1), Dim::Of("rows"), Dim::Of(64)});
//   graph.AddInitializer("w", Tensor::FromFloats({64, 64}, values));
//   graph.AddNode("MatMul", {"x", "w"}, {"y"});
//   graph.AddNode("Softmax", {"y"}, {"z"}, {Attribute::Of("axis", -1)});
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace weft::onnx {

// The numbers are those of TensorProto.DataType.
enum class ElementType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

// Gives ONNX's own name in lower case: "float16", "int64", ...
std::string_view ElementTypeName(ElementType type);
// Gives the bits of one element. It is 4 for kInt4, and 0 for kString, kUndefined and numbers
// outside the enumeration.
int ElementBits(ElementType type);
bool IsFloatType(ElementType type);
// Gives the element type of weft's tensors with the same bytes, or nullopt when there is none
// (double, 4-bit, ...).
std::optional<DType> ToDType(ElementType type);
// Gives the type with the same bytes. REQUIRES: !IsBlockFormat(dtype).
ElementType FromDType(DType dtype);
// Gives the bytes of a tensor of `dims`; 4-bit elements are packed two a byte, the last byte
// padded. Gives nullopt when a dimension is negative, the product overflows or the type has no
// fixed width.
std::optional<uint64_t> TensorByteCount(ElementType type, std::span<const int64_t> dims);

// A constant tensor is an initializer or a tensor attribute. Its raw bytes are little-endian and in
// row-major order; 4-bit elements are packed low nibble first.
struct Tensor {
  ElementType type = ElementType::kUndefined;
  std::vector<int64_t> dims;
  // The bytes are a slice of the mapped file, or were made in memory. They are empty (while
  // byte_count > 0) in a graph-only model whose weights lie at `location`.
  Slice data;
  uint64_t byte_count = 0;
  // The place of the bytes when a written model refers to them instead of holding them. It is a
  // file name relative to the model, or a blob's name (SHA-256 in hex), and the offset in it. It is
  // empty where they are inline.
  std::string location;
  uint64_t offset = 0;
  // `data` lies in a mapped file: pages that were read can be dropped again (weights.h).
  bool mapped = false;
  // The values of a kString tensor, which has no bytes.
  std::vector<std::string> strings;

  // REQUIRES: values.size() is the product of dims.
  static Tensor FromFloats(std::vector<int64_t> dims, std::span<const float> values);
  static Tensor FromInt64s(std::vector<int64_t> dims, std::span<const int64_t> values);
  static Tensor FromInt64s(std::vector<int64_t> dims, std::initializer_list<int64_t> values);
  // REQUIRES: bytes.byte_count() == *TensorByteCount(type, dims).
  static Tensor FromBytes(ElementType type, std::vector<int64_t> dims, Slice bytes);
  // Makes a tensor whose bytes lie elsewhere (graph-only). REQUIRES: TensorByteCount(type, dims)
  // has a value.
  static Tensor At(ElementType type, std::vector<int64_t> dims, std::string location,
                   uint64_t offset);

  bool has_data() const { return data.byte_count() == byte_count; }
  // REQUIRES: dims are those of a valid tensor.
  int64_t element_count() const;
  // Gives values of any integer type or bool as 64-bit integers, for the small constants that steer
  // graphs. Gives nullopt for other types, and when the bytes are not here.
  std::optional<std::vector<int64_t>> AsInt64s() const;
  // Gives values as floats (any float type of 16 bits or more, integers and bool); nullopt as
  // above.
  std::optional<std::vector<float>> AsFloats() const;
};

class Graph;

// weft carries this along without looking inside: sparse tensors and type attributes, as their
// serialized AttributeProto.
struct OpaqueAttribute {
  std::string serialized;
};

struct Attribute {
  using Value =
      std::variant<float, int64_t, std::string, Tensor, std::shared_ptr<Graph>, std::vector<float>,
                   std::vector<int64_t>, std::vector<std::string>, OpaqueAttribute>;
  std::string name;
  Value value;

  static Attribute Of(std::string name, int64_t value) { return {std::move(name), value}; }
  static Attribute Of(std::string name, int value) { return {std::move(name), int64_t{value}}; }
  static Attribute Of(std::string name, float value) { return {std::move(name), value}; }
  static Attribute Of(std::string name, const char* value) {
    return {std::move(name), std::string(value)};
  }
  static Attribute Of(std::string name, std::string value) {
    return {std::move(name), std::move(value)};
  }
  static Attribute Of(std::string name, std::vector<int64_t> value) {
    return {std::move(name), std::move(value)};
  }
  static Attribute Of(std::string name, std::vector<float> value) {
    return {std::move(name), std::move(value)};
  }
  static Attribute Of(std::string name, Tensor value) {
    return {std::move(name), std::move(value)};
  }
};

struct Node {
  std::string op_type;
  // "" is the standard domain ("ai.onnx" is normalised to ""); "com.microsoft" the fused ops of
  // onnxruntime.
  std::string domain;
  std::string name;
  // "" is an optional input or output that is absent; trailing absent ones may be missing
  // altogether.
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string overload;

  // Gives the i-th input's or output's name, or "" when absent.
  std::string_view Input(size_t i) const;
  std::string_view Output(size_t i) const;
  bool HasInput(size_t i) const { return !Input(i).empty(); }
  bool HasOutput(size_t i) const { return !Output(i).empty(); }

  // Read attributes, and give the default when there is none of that name and type.
  const Attribute* Find(std::string_view attribute_name) const;
  int64_t Int(std::string_view attribute_name, int64_t if_absent) const;
  float Float(std::string_view attribute_name, float if_absent) const;
  std::string_view String(std::string_view attribute_name, std::string_view if_absent) const;
  std::vector<int64_t> Ints(std::string_view attribute_name,
                            std::vector<int64_t> if_absent = {}) const;
  std::vector<float> Floats(std::string_view attribute_name,
                            std::vector<float> if_absent = {}) const;
  const Tensor* TensorAttribute(std::string_view attribute_name) const;
  void Set(Attribute attribute);

  // Tells whether this is an op of the standard domain.
  bool Is(std::string_view standard_op) const { return domain.empty() && op_type == standard_op; }
  // Tells whether this is an op of com.microsoft.
  bool IsMicrosoft(std::string_view op) const { return domain == "com.microsoft" && op_type == op; }
  // Gives "node 12 '/model/layers.0/mlp/Mul' (Mul)", for error sentences. Pass -1 when the index is
  // unknown.
  std::string Describe(int64_t node_index = -1) const;
};

// A dimension of a declared shape is a number, a symbol, or unknown (value < 0 and no symbol).
struct Dim {
  int64_t value = -1;
  std::string symbol;

  static Dim Of(int64_t value) { return {value, {}}; }
  static Dim Of(std::string symbol) { return {-1, std::move(symbol)}; }
  bool known() const { return value >= 0; }
  bool operator==(const Dim&) const = default;
};

// A declared value is a graph input or output, or one of value_info.
struct ValueInfo {
  std::string name;
  ElementType type = ElementType::kUndefined;
  // The shape is absent when it is not declared.
  std::optional<std::vector<Dim>> shape;
  // A serialized TypeProto when the value is not a dense tensor (sequence, optional, ...).
  std::string opaque_type;

  bool operator==(const ValueInfo&) const = default;
};

class Graph {
 public:
  std::string name;
  std::vector<Node> nodes;
  std::vector<ValueInfo> inputs;  // without the initializers that old files repeat here
  std::vector<ValueInfo> outputs;
  std::map<std::string, Tensor, std::less<>> initializers;
  std::map<std::string, ValueInfo, std::less<>>
      value_infos;  // may also describe inputs and outputs

  // Returns the new node's index.
  size_t AddNode(std::string op_type, std::vector<std::string> node_inputs,
                 std::vector<std::string> node_outputs, std::vector<Attribute> attributes = {},
                 std::string domain = "", std::string node_name = "");
  void AddInput(std::string input_name, ElementType type, std::vector<Dim> shape);
  void AddOutput(std::string output_name, ElementType type, std::vector<Dim> shape);
  // Replaces an initializer of the same name.
  void AddInitializer(std::string tensor_name, Tensor tensor);

  const Tensor* FindInitializer(std::string_view tensor_name) const;
  const ValueInfo* FindInput(std::string_view input_name) const;
  const ValueInfo* FindOutput(std::string_view output_name) const;
  // Gives the declaration of a value, wherever it stands (inputs, outputs, value_info).
  const ValueInfo* FindValueInfo(std::string_view value_name) const;
};

struct Model {
  int64_t ir_version = 10;
  std::map<std::string, int64_t> opset_imports;  // domain ("" = standard) -> version
  std::string producer_name;
  std::string producer_version;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::string> functions;  // serialized FunctionProtos, carried along
  Graph graph;
};

// Gives the names that a node reads: its inputs, and the names that its subgraphs take from the
// surrounding graph. No name is empty, and each comes once, in order of first use.
std::vector<std::string> ReadNames(const Node& node);

// The producers and consumers of every name in a graph are views into `graph`. They are made anew
// after the graph changes.
class GraphIndex {
 public:
  explicit GraphIndex(const Graph& graph);

  // Gives the index of the node that writes `name`, or -1 when none does (input, initializer or
  // unknown).
  int64_t Producer(std::string_view name) const;
  // Gives the node itself, or nullptr.
  const Node* ProducerNode(std::string_view name) const;
  // Gives the indices of the nodes that read `name` (also through subgraphs), ascending.
  std::span<const size_t> Consumers(std::string_view name) const;

 private:
  const Graph& graph_;
  std::map<std::string_view, int64_t> producers_;
  std::map<std::string, std::vector<size_t>, std::less<>> consumers_;
};

}  // namespace weft::onnx
