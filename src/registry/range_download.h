// A large file over several connections at once, each with a range of its own: a registry's servers
// limit connections, not clients.
#pragma once

#include <optional>

#include "registry/download_job.h"
#include "registry/range_file.h"

namespace weft::registry {

// Downloads what `file` lacks. nullopt: every range is whole. kUnsupported when the server does not
// serve ranges; kCancelled when told to stop.
std::optional<Error> DownloadRanges(const DownloadJob& job, RangeFile& file);

}  // namespace weft::registry
