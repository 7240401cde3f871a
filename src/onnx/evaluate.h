// Evaluates a node on constants: the few ops that exporters put around constants (shape arithmetic,
// casts, masks' fill values). Exact: integers, bools and IEEE float32 only, the same bits that a
// runtime gets.
#pragma once

#include <optional>

#include "onnx/graph.h"

namespace weft::onnx {

// The node's only output. nullopt when an input is not a small initializer with its bytes here, or
// the op, type or shape is not covered.
std::optional<Tensor> Evaluate(const Node& node, const Graph& graph);

}  // namespace weft::onnx
