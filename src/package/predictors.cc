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

Result<std::optional<GroupPredictor>> ReadPredictor(const Package& package, uint32_t layer) {
  const Digest digest = package.manifest.layers.at(layer).predictor;
  if (digest == Digest()) return std::optional<GroupPredictor>();
  ASSIGN_OR_RETURN(const Slice blob, package.blobs->Get(digest, package.manifest.blobs.at(digest)));
  ASSIGN_OR_RETURN(GroupPredictor predictor, DecodePredictor(blob.bytes()));
  if (predictor.columns == package.manifest.hidden_columns)
    return std::optional(std::move(predictor));
  return Error(ErrorCode::kInvalidData, "The predictor of layer " + std::to_string(layer) +
                                            " reads rows of " + std::to_string(predictor.columns) +
                                            " columns, expected " +
                                            std::to_string(package.manifest.hidden_columns) + ".");
}

}  // namespace weft::package
