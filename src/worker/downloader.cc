#include "worker/downloader.h"

#include "worker/download_progress.h"

namespace weft::worker {

Status Downloader::Fetch(const std::vector<uint32_t>& layers,
                         const std::atomic<bool>& interrupted) {
  DownloadProgress progress(loader_.MissingBytes(layers), MonotonicNow());
  const auto report = [&] {
    if (!progress.IsDue(MonotonicNow())) return;
    tell_(FetchProgressed{progress.done_bytes(), progress.total_bytes()});
  };
  const auto on_progress = [&](uint64_t byte_count) {
    progress.Add(byte_count);
    report();
  };
  for (const uint32_t layer : layers) {
    const uint64_t missing_bytes = loader_.MissingBytes({layer});
    const Instant begin = MonotonicNow();
    Status fetched = loader_.Download(layer, on_progress, interrupted);
    // Whatever broke off when it was stopped says nothing about the source.
    if (!fetched.ok() && interrupted)
      return Error(ErrorCode::kCancelled, "The download was interrupted.");
    TRY(std::move(fetched));
    progress.SetMissing(loader_.MissingBytes(layers));
    report();
    tell_(LayerFetched{layer, missing_bytes, MonotonicNow() - begin});
  }
  return OkStatus();
}

Status Downloader::FetchParts(const std::vector<LayerPart>& parts,
                              const std::atomic<bool>& interrupted) {
  const auto missing = [&] {
    uint64_t byte_count = 0;
    for (const LayerPart& part : parts) byte_count += loader_.MissingPartBytes(part);
    return byte_count;
  };
  DownloadProgress progress(missing(), MonotonicNow());
  const auto on_progress = [&](uint64_t byte_count) {
    progress.Add(byte_count);
    if (!progress.IsDue(MonotonicNow())) return;
    tell_(FetchProgressed{progress.done_bytes(), progress.total_bytes()});
  };
  for (const LayerPart& part : parts) {
    Status fetched = loader_.DownloadPart(part, on_progress, interrupted);
    if (!fetched.ok() && interrupted)
      return Error(ErrorCode::kCancelled, "The download was interrupted.");
    TRY(std::move(fetched));
    progress.SetMissing(missing());
  }
  return OkStatus();
}

}  // namespace weft::worker
