// An opened model package on disk.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "package/blob_store.h"
#include "package/manifest.h"

namespace weft::package {

struct Package {
  std::filesystem::path folder;
  Manifest manifest;
  Digest digest;              // of weft.json
  std::string manifest_json;  // as it stands on disk
  std::shared_ptr<BlobStore> blobs;

  // Reads and validates weft.json and that every blob file is there with its length (bytes are
  // verified on use).
  static Result<Package> Open(const std::filesystem::path& folder);
  // A file named in manifest.files, verified against its digest.
  Result<std::string> ReadFile(const std::string& name) const;
};

}  // namespace weft::package
