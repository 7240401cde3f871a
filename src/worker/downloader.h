// Downloader: carries out one fetch of membership, layer by layer: makes the blobs of each layer
// present on this device and verified. Blocks; on the thread that downloads.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "worker/layer_loader.h"
#include "worker/membership_events.h"

namespace weft::worker {

class Downloader {
 public:
  // `tell` gets LayerFetched for each layer, and FetchProgressed now and then and at the end.
  Downloader(LayerLoader& loader, std::function<void(Event)> tell)
      : loader_(loader), tell_(std::move(tell)) {}

  // Parts of layers, without LayerFetched.
  Status FetchParts(const std::vector<LayerPart>& parts, const std::atomic<bool>& interrupted);

  // kCancelled soon after `interrupted` turns true; what came until then stays on the device.
  Status Fetch(const std::vector<uint32_t>& layers, const std::atomic<bool>& interrupted);

 private:
  LayerLoader& loader_;
  const std::function<void(Event)> tell_;
};

}  // namespace weft::worker
