// For tests: where reference data lies. `./dev test` unpacks it out of tests/data/packs.
#pragma once

#include <weft_source_dir.h>
#include <cstdlib>
#include <filesystem>

namespace weft {

// Folders named checkpoints, onnx, tokenizers, ...: $WEFT_DATA, or build/test-data of the source
// folder.
inline std::filesystem::path TestDataFolder() {
  if (const char* folder = std::getenv("WEFT_DATA")) return folder;
  return std::filesystem::path(WEFT_SOURCE_DIR) / "build" / "test-data";
}

}  // namespace weft

#define WEFT_NEED_DATA(path)                 \
  ASSERT_TRUE(std::filesystem::exists(path)) \
      << "no reference data at " << (path) << ": run `./dev test --only data`"
