#include "onnx/simple_graph.h"

#include "base/check.h"

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

void Insert(NameSet& into, const NameSet& names) {
  into.insert(names.begin(), names.end());
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

void SetSplitBoundaries(const NameSet& inputs, const NameSet& outputs, SimpleGraph& before,
                        SimpleGraph& after) {
  const NameSet crossing = BoundaryTensors(before, after);
  before.inputs = Intersection(inputs, before.NodeInputs());
  before.outputs = Intersection(outputs, before.NodeOutputs());
  Insert(before.outputs, crossing);
  after.inputs = Intersection(inputs, after.NodeInputs());
  Insert(after.inputs, crossing);
  after.outputs = Intersection(outputs, after.NodeOutputs());
}

SimpleGraph MergeRange(const CoarsenedGraph& parts, size_t first, size_t end) {
  CHECK(first < end && end <= parts.size(), "a range of parts");
  SimpleGraph merged;
  for (size_t part = first; part < end; ++part) {
    for (const auto& [index, node] : parts[part].nodes) merged.nodes.emplace(index, node);
  }
  return merged;
}

void SetMinimalBoundaries(CoarsenedGraph& parts, const NameSet& outputs) {
  NameSet required = outputs;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const NameSet written = part->NodeOutputs();
    part->inputs = Difference(part->NodeInputs(), written);
    part->outputs = Intersection(required, written);
    Insert(required, part->inputs);
  }
}

}  // namespace weft::onnx
