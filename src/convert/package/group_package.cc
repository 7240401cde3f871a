#include "convert/package/group_package.h"

#include <algorithm>
#include <set>
#include <utility>

#include "convert/package/package_files.h"
#include "convert/package/package_folder.h"
#include "program/codec.h"
#include "program/shards.h"
#include "program/weight_parts.h"

namespace weft::convert {
namespace {

// Arrays of a group begin at multiples of this: they are read where they are mapped.
constexpr size_t kAlignment = 64;

class GroupWriter {
 public:
  GroupWriter(const package::Package& package, package::BlobStore& blobs)
      : package_(package), manifest_(package.manifest), blobs_(blobs) {
    manifest_.blobs.clear();
    manifest_.files.clear();
    manifest_.has_onnx = false;
  }

  Status AddLayer(program::Program program) {
    if (program::HasGroups(program)) TRY(StoreGroups(program));
    package::LayerInfo& layer = manifest_.layers[program.layer_index];
    std::set<package::Digest> read;
    for (const program::Weight& weight : program.weights)
      for (const auto* parts : {&weight.data, &weight.scale, &weight.zero})
        for (const program::Part& part : *parts) read.insert(package::Digest(part.digest));
    for (const package::Digest& blob : read) TRY(Keep(blob));
    layer.blobs.assign(read.begin(), read.end());
    ASSIGN_OR_RETURN(layer.program, Store(program::Encode(program)));
    return OkStatus();
  }

  const package::Manifest& manifest() const { return manifest_; }

 private:
  // Every group of the layer as a blob, to which its weights refer from then on.
  Status StoreGroups(program::Program& program) {
    const program::MoeExperts experts = *program::FindExperts(program);
    program::Weight gate_up = Empty(program.weights[experts.gate_up]);
    program::Weight down = Empty(program.weights[experts.down]);
    for (uint32_t group = 0; group < experts.experts; ++group) {
      bytes_.clear();
      pending_.clear();
      TRY(Append(program.weights[experts.gate_up], group, gate_up));
      TRY(Append(program.weights[experts.down], group, down));
      ASSIGN_OR_RETURN(const package::Digest blob, Store(std::exchange(bytes_, {})));
      for (const auto& [parts, at] : pending_) (*parts)[at].digest = blob.bytes();
    }
    program.weights[experts.gate_up] = std::move(gate_up);
    program.weights[experts.down] = std::move(down);
    return OkStatus();
  }

  static program::Weight Empty(const program::Weight& weight) {
    return {weight.name, weight.dtype, weight.shape, {}, {}, {}};
  }

  Status Append(const program::Weight& weight, uint32_t group, program::Weight& out) {
    for (const auto array :
         {&program::Weight::data, &program::Weight::scale, &program::Weight::zero}) {
      const uint64_t each = program::ByteCount(weight.*array) / weight.shape[0];
      if (each == 0) continue;
      bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
      pending_.emplace_back(&(out.*array), (out.*array).size());
      (out.*array).push_back({{}, bytes_.size(), each});
      for (const program::Part& part : program::CutParts(weight.*array, group * each, each)) {
        const package::Digest digest(part.digest);
        ASSIGN_OR_RETURN(const Slice blob,
                         package_.blobs->Get(digest, package_.manifest.blobs.at(digest)));
        const ByteSpan piece = blob.bytes().subspan(part.offset, part.byte_count);
        bytes_.insert(bytes_.end(), piece.begin(), piece.end());
      }
    }
    return OkStatus();
  }

  Result<package::Digest> Store(const std::vector<uint8_t>& bytes) {
    const package::Digest digest = package::Digest::Of(bytes);
    if (manifest_.blobs.emplace(digest, package::MakeBlobInfo(bytes)).second)
      TRY(blobs_.Put(digest, bytes));
    return digest;
  }

  // A blob of the other package that this one has, too.
  Status Keep(const package::Digest& digest) {
    if (manifest_.blobs.contains(digest)) return OkStatus();
    const package::BlobInfo& info = package_.manifest.blobs.at(digest);
    ASSIGN_OR_RETURN(const Slice blob, package_.blobs->Get(digest, info));
    TRY(blobs_.Put(digest, blob.bytes()));
    manifest_.blobs.emplace(digest, info);
    return OkStatus();
  }

  const package::Package& package_;
  package::Manifest manifest_;
  package::BlobStore& blobs_;
  std::vector<uint8_t> bytes_;  // of the group that is being put together
  // Its parts, which wait for its digest.
  std::vector<std::pair<std::vector<program::Part>*, size_t>> pending_;
};

}  // namespace

Status WriteGroupPackage(const package::Package& package, std::vector<program::Program> programs,
                         const std::filesystem::path& folder, bool replace) {
  ASSIGN_OR_RETURN(PackageFolder made, PackageFolder::Open(folder, replace));
  ASSIGN_OR_RETURN(const auto blobs, package::BlobStore::Open(made.partial() / "blobs"));
  GroupWriter writer(package, *blobs);
  for (program::Program& layer : programs) TRY(writer.AddLayer(std::move(layer)));
  TextFiles files;
  for (const auto& [name, digest] : package.manifest.files) {
    if (name == "model.onnx") continue;
    ASSIGN_OR_RETURN(files[name], package.ReadFile(name));
  }
  TRY(WritePackageFiles(made.partial(), writer.manifest(), files));
  return made.Publish();
}

}  // namespace weft::convert
