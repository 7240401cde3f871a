// Where tests find reference data: $WEFT_DATA, or shared/data beside the source folder. Tests only.
#pragma once

#include <weft_source_dir.h>
#include <cstdlib>
#include <filesystem>

namespace weft {

inline std::filesystem::path TestDataFolder() {
  if (const char* folder = std::getenv("WEFT_DATA")) return folder;
  return std::filesystem::path(WEFT_SOURCE_DIR).parent_path() / "shared" / "data";
}

// Where `node tools/text_oracle/*.mjs` writes what other implementations answer: $WEFT_TEXT_ORACLE,
// or build/text-oracle in the source folder.
inline std::filesystem::path TextOracleFolder() {
  if (const char* folder = std::getenv("WEFT_TEXT_ORACLE")) return folder;
  return std::filesystem::path(WEFT_SOURCE_DIR) / "build" / "text-oracle";
}

}  // namespace weft

#define WEFT_NEED_DATA(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no reference data at " << (path)

#define WEFT_NEED_ORACLE(path, script) \
  if (!std::filesystem::exists(path))  \
  GTEST_SKIP() << "no oracle at " << (path) << ": run `node tools/text_oracle/" script "`"
