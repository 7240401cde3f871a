// Just enough inference of types and of last dimensions to declare the residual stream at a cut
// (graphs seldom describe their inner values).
#pragma once

#include <string_view>

#include "onnx/graph.h"

namespace weft::onnx {

// The element type of a value; kUndefined when the rules here do not tell.
ElementType InferType(const Graph& graph, const GraphIndex& index, std::string_view value);

}  // namespace weft::onnx
