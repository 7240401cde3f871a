#include "convert/graph/graph_nodes.h"

#include "base/check.h"

namespace weft::convert {

using onnx::Attribute;
using onnx::ElementType;
using onnx::Tensor;

std::vector<int64_t> Dims(std::initializer_list<uint64_t> values) {
  std::vector<int64_t> dims;
  for (const uint64_t value : values) dims.push_back(static_cast<int64_t>(value));
  return dims;
}

std::string GraphNodes::Node(const std::string& name, const std::string& op,
                             std::vector<std::string> inputs, std::vector<Attribute> attributes,
                             const std::string& domain) {
  std::string output = name + "/output_0";
  graph_.AddNode(op, std::move(inputs), {output}, std::move(attributes), domain, name);
  return output;
}

std::string GraphNodes::Constant(const std::string& name, std::vector<int64_t> dims,
                                 std::initializer_list<int64_t> values) {
  if (graph_.FindInitializer(name) == nullptr) {
    graph_.AddInitializer(name, Tensor::FromInt64s(std::move(dims), values));
  }
  return name;
}

std::string GraphNodes::Scalar(const std::string& name, float value) {
  if (graph_.FindInitializer(name) == nullptr) {
    graph_.AddInitializer(name, Tensor::FromFloats({}, {&value, 1}));
  }
  return name;
}

std::string GraphNodes::External(const std::string& name, ElementType type,
                                 std::vector<int64_t> dims, const StoredArray& array) {
  if (graph_.FindInitializer(name) == nullptr) {
    Tensor tensor = Tensor::At(type, std::move(dims), array.blob.ToHex(), array.offset);
    CHECK(tensor.byte_count == array.byte_count, "bytes of " + name);
    graph_.AddInitializer(name, std::move(tensor));
  }
  return name;
}

const StoredWeight& GraphNodes::Weight(const std::string& name) const {
  const auto found = weights_.find(name);
  CHECK(found != weights_.end(), "no weight " + name);
  return found->second;
}

std::string GraphNodes::Plain(const std::string& name) {
  const StoredWeight& weight = Weight(name);
  std::vector<int64_t> dims(weight.shape.begin(), weight.shape.end());
  return External(name, onnx::FromDType(weight.dtype), std::move(dims), weight.data);
}

std::string GraphNodes::FloatWeight(const std::string& name, const std::string& node) {
  const std::string value = Plain(name);
  return Weight(name).dtype == DType::kF32 ? value : ToFloat(node, value);
}

std::string GraphNodes::Scales(const std::string& name, const std::string& node) {
  const StoredWeight& weight = Weight(name);
  const auto columns = static_cast<int64_t>(weight.shape[1]);
  if (IsSuperblockFormat(weight.dtype))
    return External(name + "_scale", ElementType::kUint8,
                    Dims({weight.shape[0], RecordBytes(weight.dtype, columns)}), weight.scale);
  const auto blocks = static_cast<uint64_t>(BlockCount(columns));
  return ToFloat(node + "/scale", External(name + "_scale", ElementType::kFloat16,
                                           Dims({weight.shape[0], blocks}), weight.scale));
}

std::string GraphNodes::ToFloat(const std::string& node, const std::string& value) {
  return Node(node, "Cast", {value}, {Attribute::Of("to", static_cast<int>(ElementType::kFloat))});
}

std::string GraphNodes::Linear(const std::string& node, const std::string& x,
                               const std::string& path, bool has_bias) {
  const std::string name = path + ".weight";
  const StoredWeight& weight = Weight(name);
  std::string y;
  if (IsBlockFormat(weight.dtype)) {
    const auto block_bytes = static_cast<uint64_t>(BlockDataBytes(weight.dtype));
    const auto blocks = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(weight.shape[1])));
    const std::string data = External(name, ElementType::kUint8,
                                      Dims({weight.shape[0], blocks, block_bytes}), weight.data);
    std::vector<std::string> inputs = {x, data, Scales(name, node)};
    if (weight.zero.byte_count > 0) {
      inputs.push_back(External(name + "_zero", ElementType::kUint8,
                                Dims({weight.shape[0], (blocks + 1) / 2}), weight.zero));
    }
    y = Node(node + "/MatMul", "MatMulNBits", std::move(inputs),
             {Attribute::Of("K", static_cast<int64_t>(weight.shape[1])),
              Attribute::Of("N", static_cast<int64_t>(weight.shape[0])),
              Attribute::Of("bits", BlockBits(weight.dtype)),
              Attribute::Of("block_size", int64_t{kBlockValues})},
             kMicrosoft);
  } else {
    const std::string transposed =
        Node(node + "/Transpose", "Transpose", {FloatWeight(name, node + "/Cast")},
             {Attribute::Of("perm", std::vector<int64_t>{1, 0})});
    y = Node(node + "/MatMul", "MatMul", {x, transposed});
  }
  if (!has_bias) return y;
  return Node(node + "/Add", "Add", {y, Plain(path + ".bias")});
}

std::string GraphNodes::RmsNorm(const std::string& node, const std::string& x,
                                const std::string& weight, float epsilon) {
  return Node(node, "SimplifiedLayerNormalization", {x, Plain(weight)},
              {Attribute::Of("axis", -1), Attribute::Of("epsilon", epsilon),
               Attribute::Of("stash_type", 1)});
}

std::string GraphNodes::LayerNorm(const std::string& node, const std::string& x,
                                  const std::string& weight, float epsilon) {
  return Node(node, "LayerNormalization", {x, Plain(weight)},
              {Attribute::Of("axis", -1), Attribute::Of("epsilon", epsilon),
               Attribute::Of("stash_type", 1)});
}

std::string GraphNodes::HeadNorm(const std::string& node, const std::string& x,
                                 const std::string& weight, uint64_t columns, uint64_t head_columns,
                                 float epsilon) {
  const auto head = static_cast<int64_t>(head_columns), all = static_cast<int64_t>(columns);
  const std::string split =
      Node(node + "/Reshape_1", "Reshape",
           {x, Constant("constants/heads_" + std::to_string(head), {3}, {0, -1, head})});
  const std::string normed = RmsNorm(node + "/LayerNorm", split, weight, epsilon);
  return Node(node + "/Reshape_2", "Reshape",
              {normed, Constant("constants/columns_" + std::to_string(all), {3}, {0, -1, all})});
}

std::string GraphNodes::Columns(const std::string& node, const std::string& x, uint64_t first,
                                uint64_t count) {
  return Node(node, "Columns", {x},
              {Attribute::Of("first", static_cast<int64_t>(first)),
               Attribute::Of("count", static_cast<int64_t>(count))},
              kWeft);
}

std::string GraphNodes::Softcap(const std::string& node, const std::string& x, float cap) {
  const std::string limit = Scalar("constants" + node, cap);
  const std::string ratio = Node(node + "/Div", "Div", {x, limit});
  return Node(node + "/Mul", "Mul", {Node(node + "/Tanh", "Tanh", {ratio}), limit});
}

}  // namespace weft::convert
