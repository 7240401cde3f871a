// One file comes from the registry into the cache, through broken connections and busy servers. The
// download tries again with growing pauses for as long as bytes arrive now and then.
#pragma once

#include "registry/download_job.h"

namespace weft::registry {

// Afterwards the blob is in the cache, verified.
Status DownloadFile(RegistryClient& client, const DownloadJob& job);

}  // namespace weft::registry
