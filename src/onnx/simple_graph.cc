#include "onnx/simple_graph.h"

namespace weft::onnx {
namespace {

NameSet Intersection(const NameSet& a, const NameSet& b) {
  NameSet both;
  for (const std::string& name : a) {
    if (b.contains(name)) both.insert(name);
  }
  return both;
}

NameSet Difference(const NameSet& a, const NameSet& b) {
  NameSet rest;
  for (const std::string& name : a) {
    if (!b.contains(name)) rest.insert(name);
  }
  return rest;
}

}  // namespace

NameSet SimpleGraph::NodeInputs() const {
  NameSet names;
  for (const auto& [index, node] : nodes) names.insert(node.inputs.begin(), node.inputs.end());
  return names;
}

NameSet SimpleGraph::NodeOutputs() const {
  NameSet names;
  for (const auto& [index, node] : nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

SimpleGraph ToSimpleGraph(const Graph& graph) {
  SimpleGraph simple;
  for (const ValueInfo& input : graph.inputs) simple.inputs.insert(input.name);
  for (const ValueInfo& output : graph.outputs) simple.outputs.insert(output.name);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    SimpleNode node;
    for (std::string& name : ReadNames(graph.nodes[i])) {
      if (graph.FindInitializer(name) == nullptr) node.inputs.push_back(std::move(name));
    }
    for (const std::string& name : graph.nodes[i].outputs) {
      if (!name.empty()) node.outputs.push_back(name);
    }
    simple.nodes.emplace(static_cast<int64_t>(i), std::move(node));
  }
  return simple;
}

NameSet BoundaryTensors(const SimpleGraph& before, const SimpleGraph& after) {
  return Difference(Intersection(before.NodeOutputs(), after.NodeInputs()), after.NodeOutputs());
}

}  // namespace weft::onnx
