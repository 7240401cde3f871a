// A worker gets the model package from a folder on its own disk, or from a server (apps/ has that
// one, over HTTP with a cache). Blocking calls; a worker makes them on its download thread, Has and
// Read also on others.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "package/package.h"

namespace weft::worker {

class PackageSource {
 public:
  virtual ~PackageSource() = default;

  // The manifest whose bytes hash to `digest`.
  virtual Result<package::Manifest> FetchManifest(const package::Digest& digest) = 0;
  // True when the blob is on this device already.
  virtual bool Has(const package::Digest& blob) = 0;
  // Makes the blob present and verified. `on_progress` gets bytes as they arrive (not those that
  // were there). kCancelled soon after `cancel` turns true.
  virtual Status Fetch(const package::Digest& blob, const package::BlobInfo& info,
                       const std::function<void(uint64_t)>& on_progress,
                       const std::atomic<bool>& cancel) = 0;
  // A blob that was fetched, verified before it is returned.
  virtual Result<Slice> Read(const package::Digest& blob, const package::BlobInfo& info) = 0;
  // Download rate measured on up to `byte_count` bytes; 0 when there is nothing to measure (the
  // disk is local).
  virtual double MeasureDownload(uint64_t byte_count) = 0;
};

// The package's own folder: everything is there.
std::shared_ptr<PackageSource> MakeLocalSource(package::Package package);

}  // namespace weft::worker
