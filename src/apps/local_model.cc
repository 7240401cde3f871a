#include "apps/local_model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "apps/converting.h"
#include "base/file.h"
#include "convert/convert.h"
#include "registry/registry_settings.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;

// In a package: what it was made from.
constexpr const char* kMadeFrom = "made-from";

bool IsGguf(const fs::path& source) {
  return source.extension() == ".gguf";
}

// Another text when the source has changed.
std::string Describe(const fs::path& source) {
  std::error_code unknown;
  std::string text = fs::absolute(source).lexically_normal().string();
  const auto add = [&](const fs::path& file) {
    const auto size = fs::file_size(file, unknown);
    const auto changed = fs::last_write_time(file, unknown);
    text += "\n" + file.filename().string() + " " + std::to_string(size) + " " +
            std::to_string(changed.time_since_epoch().count());
  };
  if (!fs::is_directory(source, unknown)) {
    add(source);
    return text;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(source, unknown))
    if (entry.is_regular_file(unknown)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) add(file);
  return text;
}

}  // namespace

bool IsLocalModel(const fs::path& source) {
  std::error_code none;
  if (fs::exists(source / "weft.json", none)) return false;
  return fs::is_directory(source, none) ? fs::exists(source / "config.json", none)
                                        : IsGguf(source) && fs::exists(source, none);
}

Result<fs::path> ConvertLocalModel(const fs::path& source) {
  fs::path named = fs::absolute(source).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  const std::string name = (IsGguf(named) ? named.stem() : named.filename()).string();
  const fs::path package = registry::LibraryFolder(std::getenv) / name;
  const std::string made_from = Describe(named);
  std::error_code none;
  if (fs::exists(package / "weft.json", none)) {
    const auto before = ReadTextFile(package / kMadeFrom);
    if (before.ok() && *before == made_from) return package;
    const bool is_ours = before.ok() && before->substr(0, before->find('\n')) == named.string();
    if (!is_ours) {
      return Error(ErrorCode::kAlreadyExists,
                   "The library has another model named '" + name + "': '" + package.string() +
                       "'. Name that, or rename '" + named.string() + "'.");
    }
  }
  fs::create_directories(package.parent_path(), none);
  convert::ConvertOptions options;
  options.source = named;
  options.package = package;
  options.keeps_k_quants = IsGguf(named);
  options.name = name;
  options.force = true;  // an older one is replaced when the new one is whole
  const auto report = ConvertWithProgress(options);
  if (!report.ok())
    return Error(report.error()).Context("While converting '" + named.string() + "'");
  for (const std::string& note : NotesOf(*report))
    std::fprintf(stderr, "weft: note: %s\n", note.c_str());
  TRY(WriteFileAtomically(package / kMadeFrom, AsBytes(made_from)));
  return package;
}

}  // namespace weft::apps
