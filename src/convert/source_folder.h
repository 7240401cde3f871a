// Files of a checkpoint folder that may come from anywhere: plain names only, and symbolic links
// only where they stay in the folder or lead to the blob store of a Hugging Face cache
// (snapshots/<revision>/x -> ../../blobs/<hash>).
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace weft::convert {

// The path to open for `name`. kNotFound when there is no such file, kPermissionDenied when the
// name or a link leads out of the folder.
Result<std::filesystem::path> SourceFile(const std::filesystem::path& folder,
                                         const std::string& name);

// Changes when a file does: its length and its time of change.
std::string FileVersion(const std::filesystem::path& path);

}  // namespace weft::convert
