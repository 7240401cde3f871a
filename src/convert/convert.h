// `weft convert`: a Hugging Face checkpoint folder or a GGUF file becomes a model package
// (package/manifest.h).
// Streams: peak memory is a few megabytes beside the graph, whatever the model's size. The package
// is written to "<package>.partial" and renamed when it is complete, so that what has the package's
// name is whole. After an interruption the same call goes on with what lies there.
#pragma once

#include <functional>

#include "base/result.h"
#include "convert/source/conversion.h"

namespace weft::convert {

// Errors name the file, tensor, value and limit. kAlreadyExists when the package exists and `force`
// is false, kUnsupported for an architecture or feature that weft does not convert. After an error
// there is no package.
Result<ConvertReport> ConvertCheckpoint(
    const ConvertOptions& options, const std::function<void(const ConvertProgress&)>& progress);

}  // namespace weft::convert
