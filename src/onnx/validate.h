// What every graph must satisfy before anything else looks at it, and the order of its nodes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "onnx/graph.h"

namespace weft::onnx {

// A name from a file for an error sentence: quoted, control characters replaced, shortened to 160
// bytes.
std::string Quoted(std::string_view name);

// Checks the graph and all its subgraphs. Every name is written once. Every name read is an input,
// an initializer, a node's output or known outside. Outputs exist. Then sorts the nodes
// topologically; nodes that are already in order keep their places. kInvalidData names the node; a
// cycle names one node on it.
Status ValidateAndSort(Graph& graph);

// Order of node indices such that producers come first, ties by index; empty when there is a cycle
// (and nodes at all).
std::vector<size_t> TopologicalOrder(const Graph& graph);

}  // namespace weft::onnx
