#include "apps/model_info.h"

#include <algorithm>
#include <map>

#include "program/ir.h"

namespace weft::apps {

namespace {

// Fills tied_to and tied_bytes: weight blobs that an earlier layer reads too (tied embeddings).
void FindTiedWeights(const package::Manifest& manifest, std::vector<swarm::ModelLayer>& layers) {
  std::map<package::Digest, size_t> first_reader;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (const package::Digest& blob : manifest.layers[layer].blobs) {
      const auto [reader, is_first] = first_reader.emplace(blob, layer);
      if (is_first || reader->second == layer) continue;
      layers[layer].tied_to = static_cast<int>(reader->second);
      layers[layer].tied_bytes += manifest.blobs.at(blob).byte_count;
    }
    layers[layer].tied_bytes = std::min(layers[layer].tied_bytes, layers[layer].weight_bytes);
  }
}

}  // namespace

swarm::ModelInfo ModelInfoOf(const package::Package& package) {
  const package::Manifest& manifest = package.manifest;
  swarm::ModelInfo model;
  model.name = manifest.name;
  model.package_digest = package.digest.bytes();
  model.hidden_columns = manifest.hidden_columns;
  model.vocabulary = manifest.vocabulary;
  model.context_length = manifest.context_length;
  model.boundary_dtype = manifest.boundary_dtype;
  model.lowered = manifest.lowered;
  model.program_version = program::kProgramVersion;
  model.package_format = package::kPackageFormat;
  for (const package::LayerInfo& layer : manifest.layers) {
    swarm::ModelLayer costs;
    costs.weight_bytes = layer.weight_bytes;
    costs.download_bytes = package::DownloadBytes(manifest, layer.index, layer.index + 1);
    costs.read_bytes_per_token = layer.read_bytes_per_token;
    costs.kv_bytes_per_position = layer.kv_bytes_per_position;
    model.layers.push_back(costs);
  }
  FindTiedWeights(manifest, model.layers);
  return model;
}

Result<api::ModelText> LoadModelText(const package::Package& package) {
  std::map<std::string, std::string> files;
  for (const char* name : api::kTextFiles) {
    if (!package.manifest.files.contains(name)) continue;
    ASSIGN_OR_RETURN(files[name], package.ReadFile(name));
  }
  return api::ModelText::Load(files);
}

}  // namespace weft::apps
