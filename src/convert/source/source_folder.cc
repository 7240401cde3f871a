#include "convert/source/source_folder.h"

#include <algorithm>

#include "base/file.h"
#include "base/source_file.h"
#include "convert/source/json_reader.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTextBytes = 64 << 20;

bool IsBeneath(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

Result<fs::path> SourceFile(const fs::path& folder, const std::string& name) {
  if (name.empty() || name.size() > 255 || name == "." || name == ".." ||
      name.find_first_of(std::string("/\\\0", 3)) != std::string::npos) {
    return Error(ErrorCode::kPermissionDenied, "'" + Printable(name) + "' in '" + folder.string() +
                                                   "' is not the plain name of a file.");
  }
  std::error_code failure;
  const fs::path home = fs::canonical(folder, failure);
  if (failure) {
    return Error(ErrorCode::kNotFound,
                 "There is no folder '" + folder.string() + "' (" + failure.message() + ").");
  }
  const fs::path target = fs::canonical(home / name, failure);
  if (failure) {
    return Error(ErrorCode::kNotFound,
                 "'" + folder.string() + "' has no file '" + Printable(name) + "'.");
  }
  const fs::path repository = CacheRepositoryOf(home);
  const bool in_cache = !repository.empty() && IsBeneath(target, repository / "blobs");
  if (!IsBeneath(target, home) && !in_cache) {
    return Error(ErrorCode::kPermissionDenied, "'" + Printable(name) + "' in '" + folder.string() +
                                                   "' is a link that leads out of the folder.");
  }
  return target;
}

Result<TextFiles> ReadTexts(const fs::path& folder, std::span<const char* const> names) {
  TextFiles files;
  for (const std::string name : names) {
    auto path = SourceFile(folder, name);
    if (!path.ok() && path.error().code() == ErrorCode::kNotFound) continue;
    if (!path.ok()) return std::move(path).error();
    ASSIGN_OR_RETURN(std::string text, ReadTextFile(*path, kMaxTextBytes));
    if (name == "config.json") text = ReplacePythonNumbers(text);
    if (name.ends_with(".json")) TRY(ParseJson(text, name));
    files.emplace(name, std::move(text));
  }
  return files;
}

}  // namespace weft::convert
