#include "package/manifest.h"

#include <algorithm>
#include <set>

namespace weft::package {

uint64_t ChunkCount(uint64_t byte_count) {
  return byte_count / kChunkBytes + (byte_count % kChunkBytes != 0 ? 1 : 0);
}

BlobInfo MakeBlobInfo(ByteSpan bytes) {
  BlobInfo info;
  info.byte_count = bytes.size();
  for (size_t offset = 0; offset < bytes.size(); offset += kChunkBytes) {
    info.chunks.push_back(
        Sha256(bytes.subspan(offset, std::min<size_t>(kChunkBytes, bytes.size() - offset))));
  }
  return info;
}

uint64_t PredictorBytes(const Manifest& manifest) {
  uint64_t byte_count = 0;
  for (const LayerInfo& layer : manifest.layers)
    if (layer.predictor != Digest()) byte_count += manifest.blobs.at(layer.predictor).byte_count;
  return byte_count;
}

std::vector<SharedBlobs> FindSharedBlobs(const Manifest& manifest) {
  std::vector<SharedBlobs> shared(manifest.layers.size());
  std::map<Digest, size_t> first_reader;
  for (size_t layer = 0; layer < shared.size(); ++layer) {
    for (const Digest& blob : manifest.layers[layer].blobs) {
      const auto [reader, is_first] = first_reader.emplace(blob, layer);
      if (is_first || reader->second == layer) continue;
      shared[layer].with = static_cast<int>(reader->second);
      shared[layer].byte_count += manifest.blobs.at(blob).byte_count;
    }
    shared[layer].byte_count =
        std::min(shared[layer].byte_count, manifest.layers[layer].weight_bytes);
  }
  return shared;
}

uint64_t DownloadBytes(const Manifest& manifest, uint32_t first, uint32_t end) {
  std::set<Digest> distinct;
  for (const LayerInfo& layer : manifest.layers) {
    if (layer.index < first || layer.index >= end) continue;
    if (manifest.lowered) distinct.insert(layer.program);
    distinct.insert(layer.blobs.begin(), layer.blobs.end());
  }
  uint64_t byte_count = 0;
  for (const Digest& digest : distinct) {
    const auto found = manifest.blobs.find(digest);
    if (found != manifest.blobs.end()) byte_count += found->second.byte_count;
  }
  return byte_count;
}

}  // namespace weft::package
