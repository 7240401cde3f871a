#include "base/source_file.h"

namespace weft {

namespace fs = std::filesystem;

std::string FileVersion(const fs::path& path) {
  std::error_code ignored;
  const auto changed = fs::last_write_time(path, ignored).time_since_epoch().count();
  return std::to_string(fs::file_size(path, ignored)) + '@' + std::to_string(changed);
}

fs::path CacheRepositoryOf(const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    const fs::path above = at.parent_path();
    if (above.filename() != "snapshots") continue;
    fs::path repository = above.parent_path();
    if (repository.filename().string().starts_with("models--")) return repository;
  }
  return {};
}

}  // namespace weft
