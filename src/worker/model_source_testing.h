// A package source for tests of whole workers: a small random model, already on this device.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <vector>

#include "engine/test_model.h"
#include "package/manifest.h"
#include "program/codec.h"
#include "worker/package_source.h"

namespace weft::worker {

// A random model as a package in memory.
class ModelSource : public PackageSource {
 public:
  // Called without a lock, on the worker's threads. `fetch` returns what Fetch returns.
  std::function<Status(uint32_t layer, const std::atomic<bool>& cancel)> fetch =
      [](uint32_t, const std::atomic<bool>&) { return OkStatus(); };
  std::function<void(uint32_t layer)> read = [](uint32_t) {};

  explicit ModelSource(const engine::ModelSpec& spec = {}) {
    engine::MemorySource weights;
    for (const program::Program& program :
         engine::ModelBuilder(spec, engine::RandomTensors(1), weights).Build()) {
      package::LayerInfo& layer = manifest_.layers.emplace_back();
      layer.index = static_cast<uint32_t>(manifest_.layers.size() - 1);
      layer.program = Add(program::Encode(program), layer.index);
      for (const program::Weight& weight : program.weights) {
        for (const program::Part& part : weight.data) {
          const package::Digest digest(part.digest);
          layer.blobs.push_back(digest);
          layer.weight_bytes += part.byte_count;
          manifest_.blobs[digest].byte_count = part.byte_count;
          blobs_.try_emplace(digest, weights.Read(part).value());
          layer_of_.try_emplace(digest, layer.index);
        }
      }
    }
    manifest_.name = "random";
    manifest_.quantisation = "f16";
    manifest_.hidden_columns = spec.hidden;
    manifest_.vocabulary = spec.vocabulary;
  }

  const package::Manifest& manifest() const { return manifest_; }

  Result<package::Manifest> FetchManifest(const package::Digest&) override { return manifest_; }
  bool Has(const package::Digest&) override { return true; }
  Status Fetch(const package::Digest& blob, const package::BlobInfo&,
               const std::function<void(uint64_t)>&, const std::atomic<bool>& cancel) override {
    const uint32_t layer = layer_of_.at(blob);
    return blob == manifest_.layers[layer].program ? fetch(layer, cancel) : OkStatus();
  }
  Result<Slice> Read(const package::Digest& blob, const package::BlobInfo&) override {
    const uint32_t layer = layer_of_.at(blob);
    if (blob == manifest_.layers[layer].program) read(layer);
    return blobs_.at(blob);
  }
  double MeasureDownload(uint64_t) override {
    ++probes;
    return 0;
  }
  std::atomic<int> probes = 0;

 private:
  package::Digest Add(std::vector<uint8_t> bytes, uint32_t layer) {
    const package::Digest digest = package::Digest::Of(bytes);
    manifest_.blobs[digest].byte_count = bytes.size();
    blobs_.emplace(digest, Slice(std::move(bytes)));
    layer_of_[digest] = layer;
    return digest;
  }

  package::Manifest manifest_;
  std::map<package::Digest, Slice> blobs_;
  std::map<package::Digest, uint32_t> layer_of_;
};

}  // namespace weft::worker
