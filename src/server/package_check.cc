#include "server/package_check.h"

#include <algorithm>
#include <set>

#include "base/sha256.h"

namespace weft::server {
namespace {

// What is wrong with the blob's file; "": nothing.
std::string DamageOf(const package::Package& package, const package::Digest& digest,
                     const package::BlobInfo& info) {
  const auto mapped = package.blobs->Map(digest, info);
  if (!mapped.ok()) return mapped.error().message();
  for (size_t index = 0; index < info.chunks.size(); ++index) {
    const size_t offset = index * package::kChunkBytes;
    const size_t count = std::min<size_t>(package::kChunkBytes, mapped->byte_count() - offset);
    if (Sha256(mapped->bytes().subspan(offset, count)) != info.chunks[index])
      return "Chunk " + std::to_string(index) + " of " + std::to_string(info.chunks.size()) +
             " of blob " + digest.ToHex() + " does not match its SHA-256.";
  }
  return "";
}

}  // namespace

std::optional<std::string> FindDamage(const package::Package& package, uint32_t first,
                                      uint32_t end) {
  const package::Manifest& manifest = package.manifest;
  std::set<package::Digest> blobs;
  for (size_t layer = first; layer < std::min<size_t>(end, manifest.layers.size()); ++layer) {
    const package::LayerInfo& info = manifest.layers[layer];
    blobs.insert(info.blobs.begin(), info.blobs.end());
    if (manifest.lowered) blobs.insert(info.program);
  }
  for (const package::Digest& digest : blobs) {
    const auto info = manifest.blobs.find(digest);
    if (info == manifest.blobs.end()) continue;
    const std::string damage = DamageOf(package, digest, info->second);
    if (!damage.empty())
      return "The package on the server is damaged, and no device can load layers " +
             std::to_string(first) + " to " + std::to_string(end - 1) + " of it: " + damage +
             " Convert or pull the model again.";
  }
  return std::nullopt;
}

}  // namespace weft::server
