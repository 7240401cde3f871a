// One file comes from the hub into the cache, through broken connections and busy servers. The
// download tries again with growing pauses for as long as bytes arrive now and then.
#pragma once

#include "hub/download_job.h"

namespace weft::hub {

// Afterwards the blob is in the cache, verified.
Status DownloadFile(HubClient& client, const DownloadJob& job);

}  // namespace weft::hub
