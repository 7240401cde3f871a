#include "lower/refuse.h"

namespace weft::lower {

Error Refuse(const onnx::Node& node, const std::string& why) {
  return Error(ErrorCode::kUnsupported, node.Describe() + " " + why + ".");
}

}  // namespace weft::lower
