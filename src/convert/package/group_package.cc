#include "convert/package/group_package.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "convert/package/package_files.h"
#include "program/codec.h"
#include "program/neuron_groups.h"
#include "program/product_ranges.h"
#include "program/shards.h"
#include "program/weight_parts.h"

namespace weft::convert {
namespace {

// Arrays of a group begin at multiples of this: they are read where they are mapped.
constexpr size_t kAlignment = 64;
constexpr std::vector<program::Part> program::Weight::*kArrays[] = {
    &program::Weight::data, &program::Weight::scale, &program::Weight::zero};

Result<package::Digest> Store(const std::vector<uint8_t>& bytes, package::Package& made) {
  const package::Digest digest = package::Digest::Of(bytes);
  if (made.manifest.blobs.emplace(digest, package::MakeBlobInfo(bytes)).second)
    TRY(made.blobs->Put(digest, bytes));
  return digest;
}

// Stores the weights of layers.
class GroupWriter {
 public:
  GroupWriter(const package::Package& package, package::Package& made)
      : package_(package), made_(made) {}

  // Every range of the output head as a blob, to which its weight and whoever shares it refer from
  // then on. REQUIRES: nothing has been added.
  Status CutHead(const program::Program& head) {
    const std::optional<program::ProductRanges> ranges = program::FindHeadRanges(head);
    if (!ranges) return OkStatus();
    const auto& product = std::get<program::MatMul>(head.ops[ranges->product]);
    const program::Weight& whole = head.weights[product.weight.weight];
    if (whole.shape[0] != ranges->total) return OkStatus();
    program::Weight cut = Empty(whole);
    for (uint64_t first = 0; first < whole.shape[0]; first += ranges->columns) {
      const uint64_t count = std::min<uint64_t>(ranges->columns, whole.shape[0] - first);
      TRY(AppendRows(whole, first, count, cut));
      TRY(StorePending());
    }
    head_ = {whole, std::move(cut)};
    return OkStatus();
  }

  Status Add(program::Program& program) {
    for (program::Weight& weight : program.weights)
      if (head_ && IsSame(weight, head_->first)) {
        std::string name = std::move(weight.name);
        weight = head_->second;
        weight.name = std::move(name);
      }
    if (program::FindExperts(program) != nullptr) TRY(StoreGroups(program));
    TRY(StoreRanges(program));
    std::set<package::Digest> read;
    for (const program::Weight& weight : program.weights)
      for (const auto* parts : {&weight.data, &weight.scale, &weight.zero})
        for (const program::Part& part : *parts) read.insert(package::Digest(part.digest));
    for (const package::Digest& blob : read) TRY(Keep(blob));
    made_.manifest.layers[program.layer_index].blobs.assign(read.begin(), read.end());
    return OkStatus();
  }

 private:
  // Every group of the layer as a blob, to which its weights refer from then on.
  Status StoreGroups(program::Program& program) {
    const program::MoeExperts experts = *program::FindExperts(program);
    std::vector<program::WeightId> ids = {experts.gate_up, experts.down};
    for (const std::optional<program::WeightId> bias : {experts.gate_up_bias, experts.down_bias})
      if (bias) ids.push_back(*bias);
    std::vector<program::Weight> stored;
    stored.reserve(ids.size());
    for (const program::WeightId id : ids) stored.push_back(Empty(program.weights[id]));
    for (uint32_t group = 0; group < experts.experts; ++group) {
      for (size_t i = 0; i < ids.size(); ++i)
        TRY(AppendRows(program.weights[ids[i]], group, 1, stored[i]));
      TRY(StorePending());
    }
    for (size_t i = 0; i < ids.size(); ++i) program.weights[ids[i]] = std::move(stored[i]);
    return OkStatus();
  }

  // Every range of products inside the layer as a blob, to which their weights refer from then on.
  Status StoreRanges(program::Program& program) {
    if (program::FindExperts(program) == nullptr) return OkStatus();
    std::set<program::WeightId> stored;
    for (const program::ProductRanges& ranges : program::FindRanges(program)) {
      const auto& product = std::get<program::MatMul>(program.ops[ranges.product]);
      if (!stored.insert(product.weight.weight).second) continue;
      program::Weight& whole = program.weights[product.weight.weight];
      program::Weight cut = Empty(whole);
      for (uint64_t first = 0; first < whole.shape[0]; first += ranges.columns) {
        const uint64_t count = std::min<uint64_t>(ranges.columns, whole.shape[0] - first);
        TRY(AppendRows(whole, first, count, cut));
        TRY(StorePending());
      }
      whole = std::move(cut);
    }
    return OkStatus();
  }

  static program::Weight Empty(const program::Weight& weight) {
    return {weight.name, weight.dtype, weight.shape, {}, {}, {}};
  }

  static bool IsSame(const program::Weight& a, const program::Weight& b) {
    return a.dtype == b.dtype && a.shape == b.shape &&
           std::ranges::all_of(kArrays, [&](const auto array) {
             return std::ranges::equal(a.*array, b.*array,
                                       [](const program::Part& x, const program::Part& y) {
                                         return std::tie(x.digest, x.offset, x.byte_count) ==
                                                std::tie(y.digest, y.offset, y.byte_count);
                                       });
           });
  }

  // What waits becomes a blob.
  Status StorePending() {
    ASSIGN_OR_RETURN(const package::Digest blob, Store(std::exchange(bytes_, {}), made_));
    for (const auto& [parts, at] : pending_) (*parts)[at].digest = blob.bytes();
    pending_.clear();
    return OkStatus();
  }

  // [first, first + count) of the weight's first dimension: groups, or rows.
  Status AppendRows(const program::Weight& weight, uint64_t first, uint64_t count,
                    program::Weight& out) {
    for (const auto array : kArrays) {
      const uint64_t each = program::ByteCount(weight.*array) / weight.shape[0];
      if (each == 0) continue;
      bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
      pending_.emplace_back(&(out.*array), (out.*array).size());
      (out.*array).push_back({{}, bytes_.size(), count * each});
      for (const program::Part& part :
           program::CutParts(weight.*array, first * each, count * each)) {
        if (part.digest == program::kZeros) {
          bytes_.resize(bytes_.size() + part.byte_count);
          continue;
        }
        const package::Digest digest(part.digest);
        ASSIGN_OR_RETURN(const Slice blob,
                         package_.blobs->Get(digest, package_.manifest.blobs.at(digest)));
        const ByteSpan piece = blob.bytes().subspan(part.offset, part.byte_count);
        bytes_.insert(bytes_.end(), piece.begin(), piece.end());
      }
    }
    return OkStatus();
  }

  // A blob of the other package that this one has, too.
  Status Keep(const package::Digest& digest) {
    if (made_.manifest.blobs.contains(digest)) return OkStatus();
    const package::BlobInfo& info = package_.manifest.blobs.at(digest);
    ASSIGN_OR_RETURN(const Slice blob, package_.blobs->Get(digest, info));
    TRY(made_.blobs->Put(digest, blob.bytes()));
    made_.manifest.blobs.emplace(digest, info);
    return OkStatus();
  }

  const package::Package& package_;
  package::Package& made_;
  std::optional<std::pair<program::Weight, program::Weight>> head_;  // whole, and cut
  std::vector<uint8_t> bytes_;  // of the group or range that is being put together
  // Its parts, which wait for its digest.
  std::vector<std::pair<std::vector<program::Part>*, size_t>> pending_;
};

}  // namespace

Result<GroupPackage> GroupPackage::Make(const package::Package& package,
                                        std::vector<program::Program> programs,
                                        const std::filesystem::path& folder, bool replace,
                                        const Cut& cut) {
  ASSIGN_OR_RETURN(PackageFolder made_folder, PackageFolder::Open(folder, replace));
  package::Package made;
  made.folder = made_folder.partial();
  made.manifest = package.manifest;
  made.manifest.blobs.clear();
  made.manifest.files.clear();
  made.manifest.has_onnx = false;
  ASSIGN_OR_RETURN(made.blobs, package::BlobStore::Open(made.folder / "blobs"));
  GroupWriter writer(package, made);
  TRY(writer.CutHead(programs.back()));
  for (program::Program& layer : programs) {
    if (cut) {
      ASSIGN_OR_RETURN(layer, cut(layer));
    }
    TRY(writer.Add(layer));
  }
  return GroupPackage(std::move(made_folder), std::move(made), std::move(programs));
}

Status GroupPackage::Finish(const package::Package& package,
                            std::span<const program::SumGrid> grids,
                            const package::GroupNorms& norms) {
  for (program::Program& layer : programs_) {
    for (program::Op& op : layer.ops)
      if (auto* groups = std::get_if<program::MoeExperts>(&op); groups != nullptr && !grids.empty())
        groups->grid = grids[layer.layer_index];
    ASSIGN_OR_RETURN(made_.manifest.layers[layer.layer_index].program,
                     Store(program::Encode(layer), made_));
  }
  TextFiles files;
  for (const auto& [name, digest] : package.manifest.files) {
    if (name == "model.onnx") continue;
    ASSIGN_OR_RETURN(files[name], package.ReadFile(name));
  }
  if (!norms.empty()) files[package::kGroupNormsFile] = package::GroupNormsJson(norms);
  TRY(WritePackageFiles(made_.folder, made_.manifest, files));
  return folder_.Publish();
}

}  // namespace weft::convert
