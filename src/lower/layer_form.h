// What both ways of lowering, by patterns and by tracing, ask of a layer's graph.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "onnx/graph.h"

namespace weft::lower {

// The columns of the residual stream that comes in as `input`. kUnsupported when the graph does not
// declare them, or too many.
Result<uint32_t> HiddenColumns(const onnx::ValueInfo& input);

// The name of what the layer gives on: "hidden_out", or "logits" of the last layer. kUnsupported
// when it has neither.
Result<std::string> MainOutput(const onnx::Graph& graph);

// `node` is com.microsoft GroupQueryAttention over two caches that are inputs of the graph, and
// without what no program's attention does.
Status ExpectPlainAttention(const onnx::Graph& graph, const onnx::Node& node);

}  // namespace weft::lower
