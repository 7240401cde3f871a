#include "registry/library.h"

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>

#include "base/file.h"

namespace weft::registry {
namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kManifestName = "weft.json";
constexpr const char* kSourceName = "source.json";

bool IsPackage(const fs::path& folder) {
  std::error_code failure;
  return fs::is_regular_file(folder / kManifestName, failure);
}

bool IsPlainName(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos;
}

uint64_t BytesBelow(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    std::error_code unreadable;
    if (!entry->is_regular_file(unreadable) || entry->is_symlink(unreadable)) continue;
    const uint64_t file_bytes = entry->file_size(unreadable);
    if (!unreadable) bytes += file_bytes;
  }
  return bytes;
}

int64_t ModifiedAt(const fs::path& path) {
  std::error_code failure;
  const auto written = fs::last_write_time(path, failure);
  if (failure) return 0;
  const auto since_epoch = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
}

std::optional<PackageSource> ReadSource(const fs::path& folder) {
  const auto text = ReadTextFile(folder / kSourceName, 16 << 20);
  if (!text.ok()) return {};
  boost::system::error_code error;
  const json::value value = json::parse(*text, error);
  if (error || !value.is_object()) return {};
  const auto member = [&](const char* name) {
    const json::value* found = value.as_object().if_contains(name);
    return found != nullptr && found->is_string() ? std::string(found->as_string()) : "";
  };
  PackageSource source{
      member("endpoint"), member("repository"), member("revision"), member("commit"), {}};
  // It leads to folders that are removed: only what a pull could have written counts.
  if (!ParseModelReference(source.repository, source.revision).ok() ||
      source.repository.find(':') != std::string::npos || !IsCommitHash(source.commit)) {
    return {};
  }
  const json::value* files = value.as_object().if_contains("files");
  if (files != nullptr && files->is_array()) {
    for (const json::value& file : files->as_array()) {
      if (file.is_string()) source.files.emplace_back(file.as_string());
    }
  }
  return source;
}

std::vector<fs::path> LibraryPlaces(const fs::path& library, const std::string& text) {
  std::vector<fs::path> places;
  if (IsPlainName(text)) places.push_back(library / text);
  if (const auto reference = ParseModelReference(text); reference.ok()) {
    const fs::path place = library / reference->PackageName();
    if (places.empty() || places.front() != place) places.push_back(place);
  }
  return places;
}

Result<fs::path> FirstPackage(const std::vector<fs::path>& places, const std::string& text) {
  std::string looked;
  for (const fs::path& place : places) {
    if (IsPackage(place)) return place;
    looked += "\n    " + place.string();
  }
  return Error(ErrorCode::kNotFound,
               "There is no model package '" + Printable(text) +
                   "'. `weft list` shows those of the library, `weft pull ORGANISATION/NAME` "
                   "downloads one, `weft convert` makes one." +
                   (looked.empty() ? "" : " Looked for a weft.json in:" + looked));
}

}  // namespace

std::vector<LibraryEntry> ListLibrary(const fs::path& library, std::vector<std::string>* problems) {
  std::vector<LibraryEntry> entries;
  std::error_code failure;
  for (const auto& folder : fs::directory_iterator(library, failure)) {
    if (folder.path().extension() == ".partial" || !IsPackage(folder.path())) continue;
    auto entry = ReadEntry(folder.path());
    if (entry.ok()) {
      entries.push_back(std::move(entry).value());
    } else {
      problems->push_back(entry.error().message());
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const LibraryEntry& a, const LibraryEntry& b) { return a.name < b.name; });
  return entries;
}

Result<LibraryEntry> ReadEntry(const fs::path& folder) {
  LibraryEntry entry;
  entry.folder = fs::absolute(folder).lexically_normal();
  if (!entry.folder.has_filename()) entry.folder = entry.folder.parent_path();
  entry.name = entry.folder.filename().string();
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(entry.folder / kManifestName));
  ASSIGN_OR_RETURN(entry.manifest,
                   package::ParseManifest(AsBytes(text))
                       .Context("While reading the package '" + entry.folder.string() + "'"));
  entry.byte_count = BytesBelow(entry.folder);
  entry.made_at_seconds = ModifiedAt(entry.folder / kManifestName);
  entry.source = ReadSource(entry.folder);
  return entry;
}

Result<fs::path> FindInLibrary(const fs::path& library, const std::string& text) {
  return FirstPackage(LibraryPlaces(library, text), text);
}

Result<fs::path> FindPackage(const fs::path& library, const std::string& text) {
  std::vector<fs::path> places = LibraryPlaces(library, text);
  if (!text.empty()) places.insert(places.begin(), text);
  if (IsPlainName(text)) places.push_back(fs::path("packages") / text);
  return FirstPackage(places, text);
}

Status WriteSource(const fs::path& package, const PackageSource& source) {
  const json::object object{{"endpoint", source.endpoint},
                            {"repository", source.repository},
                            {"revision", source.revision},
                            {"commit", source.commit},
                            {"files", json::value_from(source.files)}};
  const std::string text = json::serialize(object) + "\n";
  return WriteFileAtomically(package / kSourceName, AsBytes(text));
}

Result<uint64_t> RemovePackage(const fs::path& folder) {
  if (!IsPackage(folder)) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + folder.string() + "' holds no weft.json, so that it is not removed.");
  }
  const fs::path partial = folder.string() + ".partial";
  const uint64_t freed = BytesBelow(folder) + BytesBelow(partial);
  std::error_code failure;
  fs::remove(folder / kManifestName, failure);  // from here on it is no package any more
  if (!failure) fs::remove_all(folder, failure);
  if (!failure) fs::remove_all(partial, failure);
  if (failure) {
    return Error(ErrorCode::kIo,
                 "Cannot remove '" + folder.string() + "': " + failure.message() + ".");
  }
  return freed;
}

}  // namespace weft::registry
