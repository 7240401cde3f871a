// onnxruntime's fused residual add: com.microsoft SkipLayerNormalization and
// SkipSimplifiedLayerNormalization compute sum = input + skip (+ bias) and norm(sum) in one node.
// The sum that ends a layer then sits in the next layer's node and two tensors would cross a cut;
// Add | norm makes it one.
#pragma once

#include <string>

#include "onnx/graph.h"

namespace weft::onnx {

bool IsSkipNorm(const Node& node);

// The name of the sum: output 3, or one derived from output 0 when the node does not give it out.
std::string SkipNormSum(const Node& node);

// Replaces a fused node by Add (two with a bias) and LayerNormalization or
// SimplifiedLayerNormalization, both in the standard domain as onnxruntime's own exporters write
// them. Appends the nodes to `out`. REQUIRES: IsSkipNorm(node).
void AppendUnfused(const Node& node, std::vector<Node>& out);

}  // namespace weft::onnx
