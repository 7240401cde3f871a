// The library: a folder of model packages by name, where `weft pull` puts what it converts. Beside
// a package's own files stands source.json, which says what it was made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "package/manifest.h"
#include "registry/model_reference.h"

namespace weft::registry {

// Where a package came from.
struct PackageSource {
  std::string endpoint;  // "https://huggingface.co"
  std::string repository;
  std::string revision;
  std::string commit;
  std::vector<std::string> files;
};

struct LibraryEntry {
  std::string name;  // the folder's
  std::filesystem::path folder;
  package::Manifest manifest;
  uint64_t byte_count = 0;      // of all files of the package
  int64_t made_at_seconds = 0;  // since 1970, UTC
  std::optional<PackageSource> source;
};

// Every package in the folder by name. What cannot be read is left out and named in `problems`.
std::vector<LibraryEntry> ListLibrary(const std::filesystem::path& library,
                                      std::vector<std::string>* problems);

// One package folder, in the library or elsewhere.
Result<LibraryEntry> ReadEntry(const std::filesystem::path& folder);

// A name in the library, or "org/name:q4" as pulled before. kNotFound says where it would be.
Result<std::filesystem::path> FindInLibrary(const std::filesystem::path& library,
                                            const std::string& text);

// The folder that `text` means: a package's path, else what FindInLibrary finds, else a name in
// ./packages. kNotFound lists where it was looked for.
Result<std::filesystem::path> FindPackage(const std::filesystem::path& library,
                                          const std::string& text);

Status WriteSource(const std::filesystem::path& package, const PackageSource& source);

// Removes a package and what is left of an interrupted conversion of it. Refuses folders that are
// no packages. Gives the bytes that became free.
Result<uint64_t> RemovePackage(const std::filesystem::path& folder);

}  // namespace weft::registry
