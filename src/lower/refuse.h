// Every refusal of a graph has this one form: the node by name and operator, and the part of it
// that is not understood. So the model's exporter can find the place.
#pragma once

#include <string>

#include "base/result.h"
#include "onnx/graph.h"

namespace weft::lower {

// Gives kUnsupported: "node '...' (Op) <why>."
Error Refuse(const onnx::Node& node, const std::string& why);

}  // namespace weft::lower
