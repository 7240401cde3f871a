// The files of a package beside its blobs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "convert/source/source.h"
#include "package/manifest.h"

namespace weft::convert {

// What `weft serve` will read must be readable. Gives back what the user should know although it is
// no fault: no tokenizer.json, or one with ids beyond `vocabulary`.
Result<std::vector<std::string>> CheckTokenizer(const TextFiles& files, uint64_t vocabulary);

// Writes `files` and weft.json, which gets their digests.
Status WritePackageFiles(const std::filesystem::path& folder, package::Manifest manifest,
                         const TextFiles& files);

}  // namespace weft::convert
