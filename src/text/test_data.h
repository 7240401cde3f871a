// Where tests find reference data: $WEFT_DATA, or shared/data beside the source folder. Tests only.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace weft {

inline std::filesystem::path TestDataFolder() {
  if (const char* folder = std::getenv("WEFT_DATA")) return folder;
  return std::filesystem::path(WEFT_SOURCE_DIR).parent_path() / "shared" / "data";
}

}  // namespace weft

#define WEFT_NEED_DATA(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no reference data at " << (path)
