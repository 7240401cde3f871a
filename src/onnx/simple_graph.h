// The minimal graph of dynamic-graph-partitioning 6.1 has ordered nodes (by their index in the ONNX
// graph) with named edges. The set equation of 6.2.3 says what crosses a cut. Initializers are not
// edges here.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/graph.h"

namespace weft::onnx {

using NameSet = std::set<std::string, std::less<>>;

struct SimpleNode {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

struct SimpleGraph {
  NameSet inputs;
  NameSet outputs;
  std::map<int64_t, SimpleNode> nodes;  // key: index of the node in the ONNX graph

  // I_k and O_k: everything the nodes read and write.
  NameSet NodeInputs() const;
  NameSet NodeOutputs() const;
};

// One-to-one: graph inputs and outputs, nodes in order (6.2.2).
SimpleGraph ToSimpleGraph(const Graph& graph);

// The tensors that cross from `before` to `after`: (O_1 n I_2) \ O_2 (6.2.3).
NameSet BoundaryTensors(const SimpleGraph& before, const SimpleGraph& after);

}  // namespace weft::onnx
