#include "package/package.h"

namespace weft::package {
namespace {

namespace fs = std::filesystem;

Status CheckBlobFiles(const fs::path& folder, const Manifest& manifest) {
  for (const auto& [digest, info] : manifest.blobs) {
    const fs::path path = folder / "blobs" / digest.ToHex();
    std::error_code failure;
    const bool present = fs::is_regular_file(path, failure);
    const uint64_t byte_count = present ? fs::file_size(path, failure) : 0;
    if (!present || failure) {
      return Error(ErrorCode::kNotFound, "The package '" + folder.string() + "' lacks blob " +
                                             digest.ToHex() + " (" + HumanBytes(info.byte_count) +
                                             "). Copy or convert it again.");
    }
    if (byte_count != info.byte_count) {
      return Error(ErrorCode::kInvalidData,
                   "Blob " + digest.ToHex() + " of the package '" + folder.string() + "' has " +
                       std::to_string(byte_count) + " bytes; its manifest says " +
                       std::to_string(info.byte_count) + ". Copy or convert it again.");
    }
  }
  for (const auto& [name, digest] : manifest.files) {
    std::error_code failure;
    if (!fs::is_regular_file(folder / name, failure)) {
      return Error(ErrorCode::kNotFound, "The package '" + folder.string() + "' lacks the file '" +
                                             name + "'. Copy or convert it again.");
    }
  }
  return OkStatus();
}

}  // namespace

Result<Package> Package::Open(const fs::path& folder) {
  Package package;
  package.folder = folder;
  auto json = ReadTextFile(folder / "weft.json");
  if (!json.ok() && json.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound,
                 "'" + folder.string() +
                     "' is not a model package: it has no weft.json. Make one "
                     "with `weft convert`.");
  }
  if (!json.ok()) return std::move(json).error();
  package.manifest_json = std::move(json).value();
  package.digest = Digest::Of(AsBytes(package.manifest_json));
  ASSIGN_OR_RETURN(package.manifest,
                   ParseManifest(AsBytes(package.manifest_json))
                       .Context("While opening the package '" + folder.string() +
                                "'; a damaged one is made again with `weft convert` or pull."));
  TRY(CheckBlobFiles(folder, package.manifest));
  ASSIGN_OR_RETURN(package.blobs, BlobStore::Open(folder / "blobs", DamagedFile::kKeep));
  return package;
}

Result<std::string> Package::ReadFile(const std::string& name) const {
  const auto found = manifest.files.find(name);
  if (found == manifest.files.end()) {
    return Error(ErrorCode::kNotFound,
                 "The package '" + folder.string() + "' has no file '" + name + "'.");
  }
  ASSIGN_OR_RETURN(std::string text, ReadTextFile(folder / name));
  const Digest actual = Digest::Of(AsBytes(text));
  if (actual != found->second) {
    return Error(ErrorCode::kInvalidData, "The file '" + name + "' of the package '" +
                                              folder.string() + "' hashes to " + actual.ToHex() +
                                              "; its manifest says " + found->second.ToHex() +
                                              ". It was changed after the package was made.");
  }
  return text;
}

}  // namespace weft::package
