// Which file of a model folder is the decoder: people keep it as model.onnx, onnx/model.onnx,
// decoder_model_merged.onnx, ...
#pragma once

#include <filesystem>

#include "base/result.h"

namespace weft::onnx {

// `path` itself when it is a file; else the folder's model.onnx, else the only .onnx file in it,
// else the same in its subfolder onnx/. Errors: kNotFound saying what was looked for, or which
// files there were to choose from.
Result<std::filesystem::path> FindModelFile(const std::filesystem::path& path);

}  // namespace weft::onnx
