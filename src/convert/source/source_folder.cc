#include "convert/source/source_folder.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/file.h"
#include "base/source_file.h"
#include "convert/source/json_reader.h"
#include "text/jinja/chat_template_files.h"

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

Status AddNamedTemplates(const fs::path& folder, TextFiles* files) {
  const std::string folder_name = "additional_chat_templates";
  auto inner = SourceFile(folder, folder_name);
  std::error_code failure;
  if (!inner.ok() || !fs::is_directory(*inner, failure)) return OkStatus();
  TextFiles with_named = *files;
  for (const auto& entry : fs::directory_iterator(*inner, failure)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".jinja")) continue;
    ASSIGN_OR_RETURN(const fs::path path, SourceFile(*inner, name));
    ASSIGN_OR_RETURN(with_named[folder_name + "/" + name], ReadTextFile(path, kMaxTextBytes));
  }
  ASSIGN_OR_RETURN(const auto sources, ChatTemplateSources(with_named));
  boost::json::object named;
  for (const auto& [name, source] : sources) named[name] = source;
  (*files)["chat_template.json"] =
      boost::json::serialize(boost::json::object{{"chat_template", std::move(named)}});
  return OkStatus();
}

}  // namespace weft::convert
