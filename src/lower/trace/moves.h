// Operators that only move elements: where each element of the output comes from. The same answer
// serves numbers, forms and bare shapes.
#pragma once

#include <optional>

#include "lower/trace/value.h"

namespace weft::lower::trace {

struct Movement {
  Dims dims;
  // For each output element its index in the concatenation of the data inputs' elements; empty when
  // only the shape was asked for.
  std::vector<int64_t> from;
};

// Is `node` one of Reshape, Transpose, Slice, Split, Concat, Expand, Squeeze, Unsqueeze, Gather,
// GatherND, Tile, Flatten?
bool IsMove(const onnx::Node& node);
// How many of its inputs are data; the others say how they are moved.
size_t DataInputs(const onnx::Node& node);

// The movement that gives output `output`. `data` are the shapes of the data inputs, `numbers` the
// other inputs in order (nullptr when absent). nullopt when they do not fit.
std::optional<Movement> MoveOf(const onnx::Node& node, const std::vector<Dims>& data,
                               const std::vector<ValuePtr>& numbers, size_t output,
                               bool with_indices);

}  // namespace weft::lower::trace
