// A GGUF model as a source of a conversion: its metadata become config.json and the tokenizer's
// files, its tensors those of a Hugging Face checkpoint.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "convert/source/source.h"

namespace weft::convert {

// `path`: a GGUF file, or any part of a split one. Errors name the file, the key or tensor, its
// value and what was expected.
Result<Source> OpenGgufSource(const std::filesystem::path& path);

}  // namespace weft::convert
