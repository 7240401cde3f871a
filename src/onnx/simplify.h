// Preprocessing of dynamic-graph-partitioning 6.2.1 that leaves what the graph computes as it is.
#pragma once

#include "onnx/graph.h"

namespace weft::onnx {

// Removes what running or cutting does not need: nodes whose results nothing uses, initializers
// nothing reads, node metadata, descriptions of values other than inputs and outputs when
// `keep_value_infos` is false, unused operator sets.
void StripModel(Model& model, bool keep_value_infos);

// Turns Constant nodes into initializers and evaluates nodes that read small constants only:
// integer, bool and float32 arithmetic on at most 4096 elements, shapes of initializers, and
// rearranging. What it does not know stays a node. Returns the number of nodes removed.
int FoldConstants(Graph& graph);

}  // namespace weft::onnx
