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

Status Downloader::FetchExperts(const std::vector<wire::LayerExperts>& sets,
                                const std::atomic<bool>& interrupted) {
  const auto missing = [&] {
    uint64_t byte_count = 0;
    for (const wire::LayerExperts& set : sets) byte_count += loader_.MissingExpertBytes(set);
    return byte_count;
  };
  DownloadProgress progress(missing(), MonotonicNow());
  const auto on_progress = [&](uint64_t byte_count) {
    progress.Add(byte_count);
    if (!progress.IsDue(MonotonicNow())) return;
    tell_(FetchProgressed{progress.done_bytes(), progress.total_bytes()});
  };
  for (const wire::LayerExperts& set : sets) {
    Status fetched = loader_.DownloadExperts(set, on_progress, interrupted);
    if (!fetched.ok() && interrupted)
      return Error(ErrorCode::kCancelled, "The download was interrupted.");
    TRY(std::move(fetched));
    progress.SetMissing(missing());
  }
  return OkStatus();
}

}  // namespace weft::worker
