#include "package/predictors.h"

#include <set>
#include <string>

#include "base/check.h"
#include "base/file.h"

namespace weft::package {
namespace {

// Everything that layers name but as a predictor.
std::set<Digest> NeededBlobs(const Manifest& manifest) {
  std::set<Digest> needed;
  for (const LayerInfo& layer : manifest.layers) {
    needed.insert(layer.program);
    needed.insert(layer.blobs.begin(), layer.blobs.end());
  }
  return needed;
}

}  // namespace

Status StorePredictors(const Package& package,
                       const std::map<uint32_t, std::vector<uint8_t>>& predictors) {
  Manifest manifest = package.manifest;
  const std::set<Digest> needed = NeededBlobs(manifest);
  std::set<Digest> old;
  for (LayerInfo& layer : manifest.layers) {
    if (layer.predictor == Digest() || needed.contains(layer.predictor)) continue;
    old.insert(layer.predictor);
    manifest.blobs.erase(layer.predictor);
    layer.predictor = Digest();
  }
  for (const auto& [layer, bytes] : predictors) {
    CHECK(layer < manifest.layers.size());
    const Digest digest = Digest::Of(bytes);
    TRY(package.blobs->Put(digest, bytes));
    manifest.blobs.emplace(digest, MakeBlobInfo(bytes));
    manifest.layers[layer].predictor = digest;
    old.erase(digest);
  }
  TRY(WriteFileAtomically(package.folder / "weft.json", AsBytes(ToJson(manifest))));
  std::error_code ignored;  // what is left over does no harm
  for (const Digest& digest : old)
    std::filesystem::remove(package.folder / "blobs" / digest.ToHex(), ignored);
  return OkStatus();
}

}  // namespace weft::package
