// From a path to a source: whoever knows which files a model may come in.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "convert/source/source.h"

namespace weft::convert {

// Opens the folder of a checkpoint (config.json, *.safetensors), a GGUF file, any part of a split
// one, or a folder that holds one. Errors name the file and what is wrong with it.
Result<Source> OpenSource(const std::filesystem::path& path);

}  // namespace weft::convert
