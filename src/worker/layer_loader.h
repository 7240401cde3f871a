// LayerLoader: the layers of a package on this device. It knows which are downloaded, fetches the
// others, decodes their programs and gives the engine their weights. Download belongs to the thread
// that downloads, Programs and Read to the one that reads; the rest may be called on any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/weight_source.h"
#include "package/group_predictor.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "worker/package_source.h"

namespace weft::worker {

// What of a layer is wanted: some of its experts, or all but them (program/shards.h).
struct LayerPart {
  uint32_t layer = 0;
  std::vector<uint32_t> experts;  // none: its hub form
};

class LayerLoader : public engine::WeightSource {
 public:
  LayerLoader(package::Manifest manifest, std::shared_ptr<PackageSource> source)
      : manifest_(std::move(manifest)), source_(std::move(source)) {}

  const package::Manifest& manifest() const { return manifest_; }
  bool IsDownloaded(uint32_t layer) const;
  std::vector<uint32_t> DownloadedLayers() const;
  // Bytes of blobs of these layers that are not on the device; a blob that two layers share (tied
  // embeddings) counts once. REQUIRES: each less than the layer count, in all that follows.
  uint64_t MissingBytes(const std::vector<uint32_t>& layers) const;
  // Makes all blobs of the layer present and verified.
  Status Download(uint32_t layer, const std::function<void(uint64_t)>& on_progress,
                  const std::atomic<bool>& cancel);

  // The same for what a part of a layer takes: its program and the part's blobs.
  uint64_t MissingPartBytes(const LayerPart& part);
  Status DownloadPart(const LayerPart& part, const std::function<void(uint64_t)>& on_progress,
                      const std::atomic<bool>& cancel);

  // Decoded programs of [first, end). REQUIRES: downloaded, end <= layer count.
  Result<std::vector<program::Program>> Programs(uint32_t first, uint32_t end);
  Result<Slice> Read(const program::Part& part) override;
  // Of the layer's neuron groups; nullopt: the package has none. It comes with the hub form.
  Result<std::optional<package::GroupPredictor>> Predictor(uint32_t layer);

 private:
  std::vector<package::Digest> Blobs(uint32_t layer) const;
  Status CheckLowered() const;
  // REQUIRES: the layer's program is on the device.
  Result<std::vector<package::Digest>> Blobs(const LayerPart& part);

  const package::Manifest manifest_;
  const std::shared_ptr<PackageSource> source_;
};

}  // namespace weft::worker
