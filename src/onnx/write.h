// Writes a Model as an ONNX file. A tensor with a `location` becomes a reference to it (external
// data). Every other tensor goes inline, streamed from where it lies, so writing needs no memory in
// the size of the weights.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "onnx/graph.h"

namespace weft::onnx {

// The bytes of a ModelProto. For graph-only models: inline tensors are copied. Errors: kUnsupported
// above protobuf's 2 GiB, kInvalidArgument when a tensor has neither bytes nor a location.
Result<std::string> SerializeModel(const Model& model);

// The same into a file, written beside it and renamed over it.
Status SaveModel(const Model& model, const std::filesystem::path& path);

}  // namespace weft::onnx
