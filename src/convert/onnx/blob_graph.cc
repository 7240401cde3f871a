#include "convert/onnx/blob_graph.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "convert/onnx/weight_recipes.h"
#include "onnx/weights.h"

namespace weft::convert {
namespace {

using onnx::Tensor;

class Builder {
 public:
  Builder(onnx::Graph* graph, const ArrayStore& store) : graph_(*graph), store_(store) {}

  void Keep(const std::string& name) {
    Tensor tensor = Take(name);
    Place(name, std::move(tensor), InitializerKey(name));
  }

  void TurnBack(const std::string& name) {
    Tensor tensor = Take(name);
    const size_t rank = tensor.dims.size();
    std::swap(tensor.dims[rank - 2], tensor.dims[rank - 1]);
    Place(name + ".transposed", std::move(tensor), TransposedKey(name));
    onnx::Node& node = Add("Transpose", {name + ".transposed"}, name);
    node.Set(onnx::Attribute::Of(
        "perm", rank == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 2, 1}));
  }

  // Experts that lie with gate first and up below come interleaved, as the graph has them:
  // [experts, 2, width, bytes] with the middle axes exchanged.
  void PutInterleaved(const std::string& name, const std::string& key) {
    Tensor tensor = Take(name);
    const std::vector<int64_t> dims = tensor.dims;
    Place(name + ".deinterleaved", std::move(tensor), key);
    graph_.AddInitializer(name + ".halves",
                          Tensor::FromInt64s({4}, {dims[0], 2, dims[1] / 2, dims[2]}));
    graph_.AddInitializer(name + ".rows", Tensor::FromInt64s({3}, dims));
    Add("Reshape", {name + ".deinterleaved", name + ".halves"}, name + ".split");
    onnx::Node& turn = Add("Transpose", {name + ".split"}, name + ".interleaved");
    turn.Set(onnx::Attribute::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
    Add("Reshape", {name + ".interleaved", name + ".rows"}, name);
  }

  // The new nodes come before those that read what they give.
  void Finish() {
    graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(nodes_.begin()),
                        std::make_move_iterator(nodes_.end()));
    onnx::DropExternalBytes(graph_);
  }

 private:
  Tensor Take(const std::string& name) {
    const auto found = graph_.initializers.find(name);
    CHECK(found != graph_.initializers.end(), "the constant " + name);
    Tensor tensor = std::move(found->second);
    graph_.initializers.erase(found);
    return tensor;
  }

  // Gives the value `name` the bytes of an array: as an initializer, or one for each expert.
  void Place(const std::string& name, Tensor tensor, const std::string& key) {
    const std::vector<StoredArray>& parts = store_.At(key);
    if (parts.size() == 1) return PlacePart(name, std::move(tensor), parts.front());
    const auto count = static_cast<int64_t>(parts.size());
    CHECK(!tensor.dims.empty() && tensor.dims[0] == count, "experts of another number: " + name);
    tensor.dims[0] = 1;
    tensor.byte_count /= parts.size();
    std::vector<std::string> names;
    for (size_t i = 0; i < parts.size(); ++i) {
      names.push_back(name + ".expert_" + std::to_string(i));
      PlacePart(names.back(), tensor, parts[i]);
    }
    Add("Concat", std::move(names), name).Set(onnx::Attribute::Of("axis", 0));
  }

  void PlacePart(const std::string& name, Tensor tensor, const StoredArray& part) {
    tensor.location = part.blob.ToHex();
    tensor.offset = part.offset;
    tensor.data = Slice();
    tensor.mapped = false;
    graph_.AddInitializer(name, std::move(tensor));
  }

  onnx::Node& Add(const char* op, std::vector<std::string> inputs, const std::string& output) {
    onnx::Node& node = nodes_.emplace_back();
    node.op_type = op;
    node.name = output + "/" + op;
    node.inputs = std::move(inputs);
    node.outputs = {output};
    return node;
  }

  onnx::Graph& graph_;
  const ArrayStore& store_;
  std::vector<onnx::Node> nodes_;
};

}  // namespace

onnx::Model GraphOverBlobs(const onnx::Model& model, const PlacedConstants& placed,
                           const ArrayStore& store) {
  onnx::Model over = model;
  Builder builder(&over.graph, store);
  for (const std::string& name : placed.kept) builder.Keep(name);
  for (const std::string& name : placed.turned) builder.TurnBack(name);
  for (const auto& [name, key] : placed.deinterleaved) builder.PutInterleaved(name, key);
  builder.Finish();
  return over;
}

}  // namespace weft::convert
