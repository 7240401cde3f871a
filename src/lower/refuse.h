// The one form in which a graph is refused: the node by name and operator, and what of it is not
// understood, so that whoever exported the model can find the place.
#pragma once

#include <string>

#include "base/result.h"
#include "onnx/graph.h"

namespace weft::lower {

// Gives kUnsupported: "node '...' (Op) <why>."
Error Refuse(const onnx::Node& node, const std::string& why);

}  // namespace weft::lower
