#include "onnx/simplify.h"

#include <algorithm>
#include <set>

#include "onnx/evaluate.h"

namespace weft::onnx {
namespace {

using Names = std::set<std::string, std::less<>>;

void AddDomains(const Graph& graph, Names& domains) {
  for (const Node& node : graph.nodes) {
    domains.insert(node.domain);
    for (const Attribute& attribute : node.attributes) {
      if (const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
        AddDomains(**subgraph, domains);
      }
    }
  }
}

// The tensor that a Constant node stands for; nullopt for forms that are kept as nodes (sparse,
// strings).
std::optional<Tensor> ConstantValue(const Node& node) {
  if (const Tensor* value = node.TensorAttribute("value")) return *value;
  if (const Attribute* attribute = node.Find("value_float")) {
    if (const auto* f = std::get_if<float>(&attribute->value)) {
      return Tensor::FromFloats({}, std::span<const float>(f, 1));
    }
  }
  if (const Attribute* attribute = node.Find("value_int")) {
    if (const auto* i = std::get_if<int64_t>(&attribute->value)) {
      return Tensor::FromInt64s({}, std::span<const int64_t>(i, 1));
    }
  }
  if (node.Find("value_floats") != nullptr) {
    const std::vector<float> values = node.Floats("value_floats");
    return Tensor::FromFloats({static_cast<int64_t>(values.size())}, values);
  }
  if (node.Find("value_ints") != nullptr) {
    const std::vector<int64_t> values = node.Ints("value_ints");
    return Tensor::FromInt64s({static_cast<int64_t>(values.size())}, values);
  }
  return std::nullopt;
}

}  // namespace

void StripModel(Model& model, bool keep_value_infos) {
  Graph& graph = model.graph;
  Names needed;
  for (const ValueInfo& output : graph.outputs) needed.insert(output.name);
  std::vector<Node> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](const std::string& name) { return needed.contains(name); });
    if (!used) continue;
    for (std::string& name : ReadNames(node)) needed.insert(std::move(name));
    node.metadata.clear();
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
  std::erase_if(graph.initializers,
                [&](const auto& entry) { return !needed.contains(entry.first); });
  if (!keep_value_infos) graph.value_infos.clear();
  Names domains = {""};
  AddDomains(graph, domains);
  if (model.functions.empty()) {
    std::erase_if(model.opset_imports,
                  [&](const auto& entry) { return !domains.contains(entry.first); });
  }
  model.metadata.clear();
}

int FoldConstants(Graph& graph) {
  Names outputs;
  for (const ValueInfo& output : graph.outputs) outputs.insert(output.name);
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    const bool is_output =
        std::any_of(node.outputs.begin(), node.outputs.end(),
                    [&](const std::string& name) { return outputs.contains(name); });
    std::optional<Tensor> value;
    if (!is_output && node.outputs.size() == 1 && node.HasOutput(0)) {
      value = node.Is("Constant") ? ConstantValue(node) : Evaluate(node, graph);
      if (const Tensor* shared = graph.FindInitializer(node.Input(0));
          shared != nullptr && node.Is("Identity")) {
        value = *shared;  // exporters give equal weights one initializer and Identity nodes; no
                          // Bytes are copied.
      }
    }
    if (value) {
      graph.value_infos.erase(node.outputs[0]);
      graph.AddInitializer(node.outputs[0], std::move(*value));
    } else {
      kept.push_back(std::move(node));
    }
  }
  const auto removed = static_cast<int>(graph.nodes.size() - kept.size());
  graph.nodes = std::move(kept);
  return removed;
}

}  // namespace weft::onnx
