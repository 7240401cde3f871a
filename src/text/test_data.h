// Where tests find what other implementations answer. Tests only.
#pragma once

#include <weft_source_dir.h>
#include <cstdlib>
#include <filesystem>

#include "base/data_testing.h"

namespace weft {

// Where `node tools/text_oracle/*.mjs` writes what other implementations answer: $WEFT_TEXT_ORACLE,
// or build/text-oracle in the source folder.
inline std::filesystem::path TextOracleFolder() {
  if (const char* folder = std::getenv("WEFT_TEXT_ORACLE")) return folder;
  return std::filesystem::path(WEFT_SOURCE_DIR) / "build" / "text-oracle";
}

}  // namespace weft

#define WEFT_NEED_ORACLE(path, script)       \
  ASSERT_TRUE(std::filesystem::exists(path)) \
      << "no oracle at " << (path) << ": run `node tools/text_oracle/" script "`"
