// A large file over several connections at once, each with a range of its own: a hub's servers
// limit connections, not clients.
#pragma once

#include <optional>

#include "hub/download_job.h"
#include "hub/range_file.h"

namespace weft::hub {

// Downloads what `file` lacks. nullopt: every range is whole. kUnsupported when the server does not
// serve ranges; kCancelled when told to stop.
std::optional<Error> DownloadRanges(const DownloadJob& job, RangeFile& file);

}  // namespace weft::hub
