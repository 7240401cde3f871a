// Opens the external data files of a model, only below the model's own folder. The kernel refuses
// "..", absolute paths and symbolic links that lead out (openat2 RESOLVE_BENEATH). A file with
// further hard links is refused too: it may be a file of someone else's under a second name. In a
// snapshot of a Hugging Face cache links may lead anywhere in the folder of its repository, where
// the cache keeps the bytes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/result.h"

namespace weft::onnx {

class ExternalFiles {
 public:
  // `folder` is the folder that the model file lies in.
  ExternalFiles(std::filesystem::path folder, bool allow_hard_links);

  // The file mapped read-only; each file once. A location that is a SHA-256 in hex is also looked
  // for in the subfolder blobs/, where model packages keep their weights. Errors: kPermissionDenied
  // when `location` leaves the folder, kNotFound, kIo, kInvalidData.
  Result<Slice> Open(const std::string& location);
  // Changes when one of the files opened so far does.
  std::string Version() const;

 private:
  Result<Slice> Map(const std::string& location);
  Descriptor OpenInCache(const std::string& location) const;

  std::filesystem::path folder_;
  bool allow_hard_links_;
  Descriptor root_;  // `folder_`, once something was asked for
  std::map<std::string, Slice> open_;
};

}  // namespace weft::onnx
