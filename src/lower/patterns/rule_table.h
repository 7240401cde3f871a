// Which rule lowers which operator.
#pragma once

#include "lower/patterns/context.h"

namespace weft::lower {

// The rule for a node; nullptr when there is none.
Rule FindRule(const onnx::Node& node);

}  // namespace weft::lower
