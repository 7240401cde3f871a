#include "apps/model_info.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "package/group_norms.h"
#include "program/codec.h"
#include "program/ir.h"
#include "program/product_ranges.h"
#include "program/shards.h"

namespace weft::apps {

namespace {

uint64_t BytesOf(const program::Weight& weight) {
  uint64_t bytes = 0;
  for (const auto* parts : {&weight.data, &weight.scale, &weight.zero})
    for (const program::Part& part : *parts) bytes += part.byte_count;
  return bytes;
}

// Adds dtypes that not every worker runs.
void FindDTypes(const program::Program& program, swarm::ModelInfo& model) {
  for (const program::Weight& weight : program.weights) {
    const bool is_old = program::VersionOf(weight.dtype) == program::kOldestProgramVersion;
    if (is_old || std::ranges::find(model.dtypes, weight.dtype) != model.dtypes.end()) continue;
    model.dtypes.push_back(weight.dtype);
  }
}

// What it says of products inside the layer that are in ranges.
void AddRanges(const program::Program& program, swarm::ModelLayer& costs) {
  uint64_t bytes = 0;
  std::set<uint32_t> exchanges;
  for (const program::ProductRanges& ranges : program::FindRanges(program)) {
    const auto& product = std::get<program::MatMul>(program.ops[ranges.product]);
    const program::Weight& weight = program.weights[product.weight.weight];
    bytes += BytesOf(weight) / weight.shape[0] * ranges.columns * ranges.count;
    costs.range_count += ranges.count;
    costs.range_columns = std::max(costs.range_columns, ranges.columns);
    exchanges.insert(ranges.exchange);
  }
  costs.range_exchanges = static_cast<uint32_t>(exchanges.size());
  if (costs.range_count > 0) costs.range_bytes = bytes / costs.range_count;
}

// What the layer's program says of its weights, and of its experts, if it has any.
Status ReadProgram(const package::Package& package, const package::LayerInfo& layer,
                   swarm::ModelInfo& model, swarm::ModelLayer& costs) {
  ASSIGN_OR_RETURN(const Slice bytes,
                   package.blobs->Get(layer.program, package.manifest.blobs.at(layer.program)));
  ASSIGN_OR_RETURN(const program::Program program, program::Decode(bytes.bytes()));
  FindDTypes(program, model);
  model.program_version = std::max(model.program_version, program::VersionOf(program));
  if (const auto ranges = program::FindHeadRanges(program)) {
    const auto& product = std::get<program::MatMul>(program.ops[ranges->product]);
    const program::Weight& weight = program.weights[product.weight.weight];
    costs.expert_count = costs.experts_per_token = ranges->count;
    costs.expert_bytes = BytesOf(weight) / weight.shape[0] * ranges->columns;
    costs.head_range_columns = ranges->columns;
    return OkStatus();
  }
  const program::MoeExperts* experts = program::FindExperts(program);
  if (experts == nullptr) return OkStatus();
  costs.expert_count = experts->experts;
  costs.experts_per_token = experts->top_k;
  for (const auto& weight : {std::optional(experts->gate_up), std::optional(experts->down),
                             experts->gate_up_bias, experts->down_bias})
    if (weight) costs.expert_bytes += BytesOf(program.weights[*weight]);
  costs.expert_bytes /= experts->experts;
  costs.groups = program::HasGroups(program);
  AddRanges(program, costs);
  return OkStatus();
}

}  // namespace

namespace {

Status FindGroupNorms(const package::Package& package, std::vector<swarm::ModelLayer>& layers) {
  if (!package.manifest.files.contains(package::kGroupNormsFile)) return OkStatus();
  ASSIGN_OR_RETURN(const std::string text, package.ReadFile(package::kGroupNormsFile));
  ASSIGN_OR_RETURN(const package::GroupNorms norms, package::ParseGroupNorms(text));
  for (size_t layer = 0; layer < std::min(norms.size(), layers.size()); ++layer)
    if (norms[layer].size() == layers[layer].expert_count) layers[layer].group_norms = norms[layer];
  return OkStatus();
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
  model.has_onnx = manifest.has_onnx;
  model.program_version = program::kOldestProgramVersion;
  model.package_format = manifest.format();
  model.embeds = manifest.embedding.has_value();
  for (const package::LayerInfo& layer : manifest.layers) {
    swarm::ModelLayer costs;
    costs.weight_bytes = layer.weight_bytes;
    costs.download_bytes = package::DownloadBytes(manifest, layer.index, layer.index + 1);
    costs.read_bytes_per_token = layer.read_bytes_per_token;
    costs.kv_bytes_per_position = layer.kv_bytes_per_position;
    if (model.lowered) {
      const Status found = ReadProgram(package, layer, model, costs);
      if (!found.ok())
        LogWarn("the program of layer {} cannot be read: {}", layer.index, found.error().message());
    }
    costs.state_bytes = layer.state_bytes;
    model.layers.push_back(costs);
  }
  if (const Status status = FindGroupNorms(package, model.layers); !status.ok())
    LogWarn("all neuron groups count alike: {}", status.error().message());
  const std::vector<package::SharedBlobs> shared = package::FindSharedBlobs(manifest);
  for (size_t layer = 0; layer < shared.size(); ++layer) {
    model.layers[layer].tied_to = shared[layer].with;
    model.layers[layer].tied_bytes = shared[layer].byte_count;
  }
  for (const LayerRange& range : manifest.keep_together)
    for (uint32_t i = range.first + 1; i < range.end; ++i) model.layers[i].with_previous = true;
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
