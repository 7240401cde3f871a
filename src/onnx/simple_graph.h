// The minimal graph of dynamic-graph-partitioning 6.1: ordered nodes (by their index in the ONNX
// graph) with named edges, and the set equations of 6.2.3 (splitting) and 6.2.4 (minimal
// boundaries) on it. Initializers are not edges here.
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

// Gives two halves of a graph with `inputs` and `outputs` their own inputs and outputs (6.2.3).
void SetSplitBoundaries(const NameSet& inputs, const NameSet& outputs, SimpleGraph& before,
                        SimpleGraph& after);

// A graph as a sequence of subgraphs in topological order.
using CoarsenedGraph = std::vector<SimpleGraph>;

// One subgraph of the union of [first, end). REQUIRES: 0 <= first < end <= parts.size().
SimpleGraph MergeRange(const CoarsenedGraph& parts, size_t first, size_t end);

// Sets every part's inputs and outputs to what is needed and no more, backwards over the parts with
// the accumulator of required outputs R (6.2.4). `outputs` are the outputs of the whole graph.
void SetMinimalBoundaries(CoarsenedGraph& parts, const NameSet& outputs);

}  // namespace weft::onnx
