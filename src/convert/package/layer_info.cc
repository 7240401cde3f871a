#include "convert/package/layer_info.h"

#include <algorithm>
#include <map>
#include <set>

#include "lower/patterns/lower_layer.h"
#include "onnx/extract.h"
#include "onnx/layers.h"
#include "program/codec.h"
#include "program/state.h"

namespace weft::convert {
namespace {

using onnx::Node;

// The table that an embedding looks rows up in: one row of it is read for a token.
bool IsLookedUp(const onnx::Graph& part, const std::string& initializer) {
  for (const Node& node : part.nodes) {
    if (!node.Is("Gather") && !node.IsMicrosoft("GatherBlockQuantized")) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i != 1 && node.inputs[i] == initializer) return true;
    }
  }
  return false;
}

// Scales reach a lookup through a Cast.
std::set<std::string> LookedUp(const onnx::Graph& part) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : part.initializers) {
    if (IsLookedUp(part, name)) names.insert(name);
    for (const Node& node : part.nodes) {
      if (node.Is("Cast") && node.Input(0) == name && IsLookedUp(part, node.outputs.front())) {
        names.insert(name);
      }
    }
  }
  return names;
}

// Keys and values of one position: [kv_heads, head_columns] of every state input.
uint64_t KvValuesPerPosition(const onnx::Graph& part, const onnx::LayerState& state) {
  uint64_t value_count = 0;
  for (const std::string& input : state.inputs) {
    const onnx::ValueInfo* info = part.FindInput(input);
    if (info == nullptr || !info->shape || info->shape->size() != 4) continue;
    const auto &heads = (*info->shape)[1], &columns = (*info->shape)[3];
    if (heads.known() && columns.known()) {
      value_count += static_cast<uint64_t>(heads.value) * static_cast<uint64_t>(columns.value);
    }
  }
  return value_count;
}

// Of the weights of experts: as many of them as a token goes to, and how many there are.
struct ExpertShare {
  uint64_t chosen = 1;
  uint64_t count = 1;
};

// Adds the initializers that lead to `value`. Experts are stacked in one, or by a Concat of one for
// each.
void AddExperts(const onnx::Graph& part, const onnx::GraphIndex& index, const std::string& value,
                ExpertShare share, std::map<std::string, ExpertShare>* shares) {
  if (value.empty() || shares->contains(value)) return;
  if (const onnx::Tensor* tensor = part.FindInitializer(value)) {
    if (share.count == 1 && !tensor->dims.empty() && tensor->dims[0] > 0) {
      share.count = static_cast<uint64_t>(tensor->dims[0]);
    }
    if (share.chosen < share.count) shares->emplace(value, share);
    return;
  }
  const Node* node = index.ProducerNode(value);
  if (node == nullptr) return;
  if (node->Is("Concat")) share.count = node->inputs.size();
  // Only what keeps an expert's bytes apart from another's: stacking, reordering, widening.
  const bool is_shaping = node->Is("Concat") || node->Is("Reshape") || node->Is("Transpose") ||
                          node->Is("Cast") || node->Is("Identity");
  if (!is_shaping) return;
  const size_t inputs = node->Is("Concat") ? node->inputs.size() : 1;
  for (size_t i = 0; i < inputs; ++i) AddExperts(part, index, node->inputs[i], share, shares);
}

std::map<std::string, ExpertShare> ExpertShares(const onnx::Graph& part) {
  std::map<std::string, ExpertShare> shares;
  const onnx::GraphIndex index(part);
  for (const Node& node : part.nodes) {
    if (!node.IsMicrosoft("MoE") && !node.IsMicrosoft("QMoE")) continue;
    const auto chosen = static_cast<uint64_t>(std::max<int64_t>(1, node.Int("k", 1)));
    for (size_t i = 2; i < node.inputs.size(); ++i) {
      AddExperts(part, index, node.inputs[i], {chosen, 1}, &shares);
    }
  }
  return shares;
}

Result<package::LayerInfo> DescribeWeights(const onnx::Graph& part) {
  package::LayerInfo layer;
  const std::set<std::string> looked_up = LookedUp(part);
  const std::map<std::string, ExpertShare> experts = ExpertShares(part);
  std::set<package::Digest> blobs;
  std::set<std::pair<std::string, uint64_t>> counted;  // a tensor under two names is read once
  for (const auto& [name, tensor] : part.initializers) {
    if (tensor.location.empty()) continue;
    ASSIGN_OR_RETURN(const package::Digest digest, package::Digest::Parse(tensor.location));
    blobs.insert(digest);
    if (!counted.emplace(tensor.location, tensor.offset).second) continue;
    layer.weight_bytes += tensor.byte_count;
    const bool by_row = looked_up.contains(name) && !tensor.dims.empty() && tensor.dims[0] > 0;
    uint64_t read_bytes = tensor.byte_count;
    if (by_row) read_bytes /= static_cast<uint64_t>(tensor.dims[0]);
    if (const auto share = experts.find(name); share != experts.end()) {
      // Tensors are far below 2^50 bytes, choices below 2^12.
      read_bytes = read_bytes * share->second.chosen / share->second.count;
    }
    layer.read_bytes_per_token += read_bytes;
  }
  layer.blobs.assign(blobs.begin(), blobs.end());
  return layer;
}

// A program may read arrays that the layer's ONNX part does not.
void AddProgramBlobs(const program::Program& program, package::LayerInfo* layer) {
  std::set<package::Digest> blobs(layer->blobs.begin(), layer->blobs.end());
  for (const program::Weight& weight : program.weights) {
    for (const auto* parts : {&weight.data, &weight.scale, &weight.zero}) {
      for (const program::Part& part : *parts) blobs.insert(package::Digest(part.digest));
    }
  }
  layer->blobs.assign(blobs.begin(), blobs.end());
}

// Experts that a graph spells out (TopK, Gather and products) are known by the program alone.
void CountChosenExperts(const onnx::Graph& part, const program::Program& program,
                        package::LayerInfo* layer) {
  for (const Node& node : part.nodes) {
    if (node.IsMicrosoft("MoE") || node.IsMicrosoft("QMoE")) return;
  }
  for (const program::Op& op : program.ops) {
    const auto* experts = std::get_if<program::MoeExperts>(&op);
    if (experts == nullptr) continue;
    uint64_t expert_bytes = 0;
    for (const program::WeightId id : {experts->gate_up, experts->down}) {
      const program::Weight& weight = program.weights[id];
      for (const auto* parts : {&weight.data, &weight.scale, &weight.zero}) {
        for (const program::Part& part_of : *parts) expert_bytes += part_of.byte_count;
      }
    }
    const uint64_t unread_bytes =
        expert_bytes / experts->experts * (experts->experts - experts->top_k);
    layer->read_bytes_per_token -= std::min(layer->read_bytes_per_token, unread_bytes);
  }
}

}  // namespace

Result<DescribedLayers> DescribeLayers(const onnx::Model& model, DType kv_dtype,
                                       const StoreProgram& store, const LowerLayer& lower) {
  ASSIGN_OR_RETURN(const onnx::LayeredModel layered, onnx::FindLayers(model));
  return DescribeLayers(layered, kv_dtype, store, lower);
}

Result<DescribedLayers> DescribeLayers(const onnx::LayeredModel& layered, DType kv_dtype,
                                       const StoreProgram& store, const LowerLayer& lower) {
  TRY(onnx::CheckCuts(layered));
  DescribedLayers described;
  described.lowered = true;
  std::vector<std::vector<uint8_t>> programs;
  const int count = layered.layer_count();
  for (int index = 0; index < count; ++index) {
    ASSIGN_OR_RETURN(const onnx::Model part, onnx::ExtractLayers(layered, index, index + 1));
    ASSIGN_OR_RETURN(package::LayerInfo layer, DescribeWeights(part.graph));
    layer.index = static_cast<uint32_t>(index);
    layer.kind = index == 0 ? "embedding" : index + 1 == count ? "head" : "transformer";
    if (layer.kind == "transformer" && static_cast<size_t>(index) <= layered.io.states.size()) {
      layer.kv_bytes_per_position =
          KvValuesPerPosition(part.graph, layered.io.states[static_cast<size_t>(index - 1)]) *
          static_cast<uint64_t>(ElementBytes(kv_dtype));
    }
    described.layers.push_back(std::move(layer));
    if (!described.lowered) continue;
    const auto program = lower(part, static_cast<uint32_t>(index));
    if (program.ok()) {
      programs.push_back(program::Encode(*program));
      AddProgramBlobs(*program, &described.layers.back());
      CountChosenExperts(part.graph, *program, &described.layers.back());
      described.layers.back().state_bytes = program::StateFloats(*program) * sizeof(float);
    } else {
      described.lowered = false;
      described.why_not_lowered = program.error().ToString();
    }
  }
  if (!described.lowered) return described;
  for (int index = 0; index < count; ++index) {
    const auto i = static_cast<size_t>(index);
    ASSIGN_OR_RETURN(described.layers[i].program, store(programs[i]));
  }
  return described;
}

}  // namespace weft::convert
