// From a name on a registry to a package in the library: download, then conversion, with what
// people see of both.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace weft::apps {

struct PullRequest {
  std::string model;  // "org/name:q4"
  std::string revision;
  bool offline = false;
  bool download_only = false;
  size_t connections = 8;  // at once
};

// The package's folder; with `download_only` that of the snapshot in the cache. A package that was
// made from the same commit before is not made again. Prints to stderr; Ctrl-C ends it with
// kCancelled and leaves what was downloaded.
Result<std::filesystem::path> PullModel(const PullRequest& request);

// The folder of the package that `model` means; a model of a registry ("org/name:q4") is pulled
// when the library does not have it, and a GGUF file or a checkpoint's folder is converted.
Result<std::filesystem::path> FindOrPull(const PullRequest& request);

}  // namespace weft::apps
