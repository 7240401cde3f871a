#include "convert/layer_info.h"

#include <set>

#include "onnx/extract.h"
#include "onnx/layers.h"
#include "program/codec.h"
#include "program/lowering.h"

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

Result<package::LayerInfo> DescribeWeights(const onnx::Graph& part) {
  package::LayerInfo layer;
  const std::set<std::string> looked_up = LookedUp(part);
  std::set<package::Digest> blobs;
  std::set<std::pair<std::string, uint64_t>> counted;  // a tensor under two names is read once
  for (const auto& [name, tensor] : part.initializers) {
    if (tensor.location.empty()) continue;
    ASSIGN_OR_RETURN(const package::Digest digest, package::Digest::Parse(tensor.location));
    blobs.insert(digest);
    if (!counted.emplace(tensor.location, tensor.offset).second) continue;
    layer.weight_bytes += tensor.byte_count;
    const bool by_row = looked_up.contains(name) && !tensor.dims.empty() && tensor.dims[0] > 0;
    layer.read_bytes_per_token +=
        by_row ? tensor.byte_count / static_cast<uint64_t>(tensor.dims[0]) : tensor.byte_count;
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

}  // namespace

Result<DescribedLayers> DescribeLayers(const onnx::Model& model, DType kv_dtype,
                                       const StoreProgram& store, const LowerLayer& lower) {
  ASSIGN_OR_RETURN(const onnx::LayeredModel layered, onnx::FindLayers(model));
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
    if (layer.kind == "transformer") {
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
