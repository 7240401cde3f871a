// `weft convert` for folders with an ONNX decoder that somebody else exported: model.onnx with its
// external data, config.json or genai_config.json, tokenizer files. Weights are taken as they are,
// but for the wishes of programs (weight_recipes.h). A graph's matrices [K, N] are stored as [N, K]
// and the graph gets a Transpose, so graph and programs share them. Layers are lowered by tracing
// (lower/trace/trace_layer.h). Where one cannot be lowered the package is for onnxruntime-web
// workers only, and its report says why.
#pragma once

#include <filesystem>
#include <functional>

#include "base/result.h"
#include "convert/source/conversion.h"

namespace weft::convert {

// Does `source` hold an ONNX model and no checkpoint, or is it an ONNX file itself?
bool IsOnnxSource(const std::filesystem::path& source);

// Errors name the file, node, value and limit; kUnsupported for graphs without layers that one
// tensor joins. After an error there is no package.
Result<ConvertReport> ImportOnnx(const ConvertOptions& options,
                                 const std::function<void(const ConvertProgress&)>& progress);

}  // namespace weft::convert
