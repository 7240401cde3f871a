#include "worker/layer_loader.h"

#include <algorithm>
#include <set>

#include "program/codec.h"
#include "program/shards.h"

namespace weft::worker {

std::vector<package::Digest> LayerLoader::Blobs(uint32_t layer) const {
  std::vector<package::Digest> blobs = manifest_.layers[layer].blobs;
  if (manifest_.lowered) blobs.push_back(manifest_.layers[layer].program);
  return blobs;
}

bool LayerLoader::IsDownloaded(uint32_t layer) const {
  for (const package::Digest& blob : Blobs(layer)) {
    if (!source_->Has(blob)) return false;
  }
  return true;
}

std::vector<uint32_t> LayerLoader::DownloadedLayers() const {
  std::vector<uint32_t> layers;
  for (uint32_t layer = 0; layer < manifest_.layers.size(); ++layer) {
    if (IsDownloaded(layer)) layers.push_back(layer);
  }
  return layers;
}

uint64_t LayerLoader::MissingBytes(const std::vector<uint32_t>& layers) const {
  std::set<package::Digest> missing;
  for (const uint32_t layer : layers) {
    for (const package::Digest& blob : Blobs(layer)) {
      if (!source_->Has(blob)) missing.insert(blob);
    }
  }
  uint64_t byte_count = 0;
  for (const package::Digest& blob : missing) byte_count += manifest_.blobs.at(blob).byte_count;
  return byte_count;
}

Status LayerLoader::Download(uint32_t layer, const std::function<void(uint64_t)>& on_progress,
                             const std::atomic<bool>& cancel) {
  for (const package::Digest& blob : Blobs(layer)) {
    if (cancel) return Error(ErrorCode::kCancelled, "The download was cancelled.");
    TRY(source_->Fetch(blob, manifest_.blobs.at(blob), on_progress, cancel)
            .Context("While downloading layer " + std::to_string(layer)));
  }
  return OkStatus();
}

Result<std::vector<package::Digest>> LayerLoader::Blobs(const LayerPart& part) {
  ASSIGN_OR_RETURN(const auto layer, Programs(part.layer, part.layer + 1));
  std::vector<program::Program> shards;
  if (part.experts.empty()) {
    shards.push_back(program::HubProgram(layer.front()));
  } else {
    ASSIGN_OR_RETURN(auto parts, program::PartPrograms(layer.front(), part.experts));
    for (program::PartProgram& each : parts) shards.push_back(std::move(each.program));
  }
  std::vector<package::Digest> blobs;
  for (const program::Program& shard : shards)
    for (const program::Weight& weight : shard.weights)
      for (const auto* parts : {&weight.data, &weight.scale, &weight.zero})
        for (const program::Part& piece : *parts) {
          const package::Digest digest(piece.digest);
          if (!manifest_.blobs.contains(digest))
            return Error(ErrorCode::kInvalidData, "A program refers to blob " + digest.ToHex() +
                                                      ", which is not in the manifest.");
          if (std::find(blobs.begin(), blobs.end(), digest) == blobs.end()) blobs.push_back(digest);
        }
  const package::Digest& predictor = manifest_.layers[part.layer].predictor;
  if (part.experts.empty() && predictor != package::Digest() &&
      std::find(blobs.begin(), blobs.end(), predictor) == blobs.end())
    blobs.push_back(predictor);
  return blobs;
}

Result<std::optional<package::GroupPredictor>> LayerLoader::Predictor(uint32_t layer) {
  const package::Digest& digest = manifest_.layers.at(layer).predictor;
  if (digest == package::Digest()) return std::optional<package::GroupPredictor>();
  const std::string what = "While reading the predictor of layer " + std::to_string(layer);
  ASSIGN_OR_RETURN(const Slice blob,
                   source_->Read(digest, manifest_.blobs.at(digest)).Context(what));
  ASSIGN_OR_RETURN(package::GroupPredictor predictor,
                   package::DecodePredictor(blob.bytes()).Context(what));
  if (predictor.columns != manifest_.hidden_columns)
    return Error(ErrorCode::kInvalidData,
                 "The predictor of layer " + std::to_string(layer) + " reads rows of " +
                     std::to_string(predictor.columns) + " columns, expected " +
                     std::to_string(manifest_.hidden_columns) + ".");
  return std::optional(std::move(predictor));
}

uint64_t LayerLoader::MissingPartBytes(const LayerPart& part) {
  uint64_t byte_count = 0;
  // Which blobs these are is known once their program is there, a few KiB.
  const package::Digest& program = manifest_.layers[part.layer].program;
  if (!source_->Has(program)) return manifest_.blobs.at(program).byte_count;
  const auto blobs = Blobs(part);
  if (!blobs.ok()) return 0;
  for (const package::Digest& blob : *blobs)
    if (!source_->Has(blob)) byte_count += manifest_.blobs.at(blob).byte_count;
  return byte_count;
}

Status LayerLoader::DownloadPart(const LayerPart& part,
                                 const std::function<void(uint64_t)>& on_progress,
                                 const std::atomic<bool>& cancel) {
  const std::string what = "While downloading a part of layer " + std::to_string(part.layer);
  TRY(CheckLowered());
  const package::Digest& program = manifest_.layers[part.layer].program;
  TRY(source_->Fetch(program, manifest_.blobs.at(program), on_progress, cancel).Context(what));
  ASSIGN_OR_RETURN(const std::vector<package::Digest> blobs, Blobs(part));
  for (const package::Digest& blob : blobs) {
    if (cancel) return Error(ErrorCode::kCancelled, "The download was cancelled.");
    TRY(source_->Fetch(blob, manifest_.blobs.at(blob), on_progress, cancel).Context(what));
  }
  return OkStatus();
}

Status LayerLoader::CheckLowered() const {
  if (manifest_.lowered) return OkStatus();
  return Error(ErrorCode::kUnsupported,
               "The model '" + manifest_.name +
                   "' has no programs: only browsers with onnxruntime-web can compute it.");
}

Result<std::vector<program::Program>> LayerLoader::Programs(uint32_t first, uint32_t end) {
  TRY(CheckLowered());
  std::vector<program::Program> programs;
  for (uint32_t layer = first; layer < end; ++layer) {
    const package::Digest& digest = manifest_.layers[layer].program;
    ASSIGN_OR_RETURN(const Slice bytes, source_->Read(digest, manifest_.blobs.at(digest)));
    ASSIGN_OR_RETURN(program::Program program,
                     program::Decode(bytes.bytes())
                         .Context("While reading the program of layer " + std::to_string(layer)));
    if (program.layer_index != layer) {
      return Error(ErrorCode::kInvalidData, "The program of layer " + std::to_string(layer) +
                                                " says that it is layer " +
                                                std::to_string(program.layer_index) + ".");
    }
    programs.push_back(std::move(program));
  }
  return programs;
}

Result<Slice> LayerLoader::Read(const program::Part& part) {
  const package::Digest digest(part.digest);
  const auto info = manifest_.blobs.find(digest);
  if (info == manifest_.blobs.end()) {
    return Error(ErrorCode::kInvalidData,
                 "A program refers to blob " + digest.ToHex() + ", which is not in the manifest.");
  }
  ASSIGN_OR_RETURN(const Slice blob, source_->Read(digest, info->second));
  if (part.offset > blob.byte_count() || part.byte_count > blob.byte_count() - part.offset) {
    return Error(ErrorCode::kInvalidData,
                 "A program reads bytes " + std::to_string(part.offset) + " to " +
                     std::to_string(part.offset + part.byte_count) + " of blob " + digest.ToHex() +
                     ", which has " + std::to_string(blob.byte_count()) + ".");
  }
  return blob.Sub(part.offset, part.byte_count);
}

}  // namespace weft::worker
