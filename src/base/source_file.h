// What is known of files that came from elsewhere, by their names alone.
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// Changes when a file does: its length and its time of change. Of what a link leads to.
std::string FileVersion(const std::filesystem::path& path);

// Files of a Hugging Face cache are links: models--org--name/snapshots/<revision>/x leads to
// models--org--name/blobs/<hash>. The folder models--org--name when `folder` is such a snapshot or
// lies in one, else an empty path. REQUIRES: `folder` is canonical.
std::filesystem::path CacheRepositoryOf(const std::filesystem::path& folder);

}  // namespace weft
