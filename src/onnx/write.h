// Writes a Model as an ONNX file. A tensor with a `location` becomes a reference to it (external
// data); every other tensor goes inline, streamed from where it lies, so that writing needs no
// memory in the size of the weights.
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

// Saves the graph to `path` and all tensors of at least `external_from_bytes` to one data file
// beside it, at offsets that are multiples of 4096. `data_name` is a plain file name such as
// "model.onnx.data".
Status SaveModelWithData(const Model& model, const std::filesystem::path& path,
                         const std::string& data_name, uint64_t external_from_bytes = 1024);

}  // namespace weft::onnx
