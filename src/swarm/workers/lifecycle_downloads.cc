// What workers say of what they download.
#include <algorithm>

#include "swarm/workers/lifecycle.h"

namespace weft::swarm {

Status Lifecycle::OnDownloadProgress(Worker& worker, const wire::pb::DownloadProgress& progress,
                                     Instant now) {
  if (progress.done_bytes() > progress.total_bytes() || progress.total_bytes() > (1ull << 50))
    return Error(ErrorCode::kInvalidData,
                 "DownloadProgress reports " + std::to_string(progress.done_bytes()) + " of " +
                     std::to_string(progress.total_bytes()) +
                     " bytes, expected at most the total and a total of at most 2^50.");
  const bool advanced = progress.total_bytes() != worker.layers->download_total_bytes ||
                        progress.done_bytes() > worker.layers->downloaded_bytes;
  worker.layers.edit().downloaded_bytes = progress.done_bytes();
  worker.layers.edit().download_total_bytes = progress.total_bytes();
  // Slow but alive: a download that moves is not cut off.
  if (advanced) {
    const Instant least = now + options_.timeouts.prepare_min;
    for (Binding& binding : worker.bindings.edit())
      binding.answer_deadline = std::max(binding.answer_deadline, least);
    Instant& deadline = worker.holding.edit().answer_deadline;
    deadline = std::max(deadline, least);
  }
  changes_.Note({.view = true});
  return OkStatus();
}

Status Lifecycle::OnLayerDownloaded(Worker& worker, const wire::pb::LayerDownloaded& downloaded,
                                    Instant now) {
  if (downloaded.layer() >= costs_.layer_count())
    return Error(ErrorCode::kInvalidData,
                 "LayerDownloaded names layer " + std::to_string(downloaded.layer()) +
                     ", expected less than " + std::to_string(costs_.layer_count()) + ".");
  worker.layers.edit().requested.Remove(downloaded.layer());
  worker.layers.edit().NoteCached({downloaded.layer(), downloaded.layer() + 1});
  OnDownload(now);
  changes_.Note({.view = true});
  return OkStatus();
}

void Lifecycle::EndDownload(Worker& worker, bool is_all) const {
  WorkerLayers& layers = worker.layers.edit();
  layers.downloaded_bytes = layers.download_total_bytes = 0;
  if (is_all) layers.requested.Clear();
}

}  // namespace weft::swarm
