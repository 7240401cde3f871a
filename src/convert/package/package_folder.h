// The folder that a package is made in, and the moment when it becomes the package.
#pragma once

#include <filesystem>

#include "base/descriptor.h"
#include "base/result.h"

namespace weft::convert {

class PackageFolder {
 public:
  // Makes or reuses "<package>.partial", locked against other processes until this object is
  // destroyed. Errors: kAlreadyExists when `package` exists and is not to be replaced, or is no
  // package; kUnavailable when another process is writing it.
  static Result<PackageFolder> Open(const std::filesystem::path& package, bool replace);

  const std::filesystem::path& partial() const { return partial_; }
  // Renames the partial folder over the package's name; a package that was there is removed.
  Status Publish();

 private:
  PackageFolder() = default;
  std::filesystem::path package_;
  std::filesystem::path partial_;
  Descriptor lock_;  // of `partial_`
};

}  // namespace weft::convert
