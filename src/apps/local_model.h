// A checkpoint or a GGUF file of this machine as a package of the library: converted when somebody
// first names it, and again when it has changed.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace weft::apps {

// Whether it looks like one: a .gguf file, or a folder with a config.json that is no package.
bool IsLocalModel(const std::filesystem::path& source);

// The package's folder in the library, which has the source's name without its extension. GGUF
// files keep their forms (`--quant keep-k`), checkpoints their weights as they are. Errors: those
// of the conversion, and kAlreadyExists where another model has the name.
Result<std::filesystem::path> ConvertLocalModel(const std::filesystem::path& source);

}  // namespace weft::apps
