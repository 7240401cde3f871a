#include "apps/onnx_split.h"

#include <boost/json.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "onnx/extract.h"
#include "onnx/layers.h"
#include "onnx/load.h"
#include "onnx/model_file.h"
#include "onnx/weights.h"
#include "onnx/write.h"

namespace weft {
namespace {

namespace json = boost::json;

// Smaller tensors stay inside the parts.
constexpr uint64_t kBlobFromBytes = 1024;

std::vector<std::pair<int, int>> Ranges(int layer_count, bool pairs) {
  std::set<std::pair<int, int>> ranges;
  for (int first = 0; first < layer_count; ++first) {
    for (int end = first + 1; end <= layer_count; ++end) {
      const bool one_layer = end == first + 1;
      const bool one_side = (first == 0) != (end == layer_count);
      if (one_layer || one_side || (pairs && end - first < layer_count)) ranges.emplace(first, end);
    }
  }
  return {ranges.begin(), ranges.end()};
}

json::array DimsJson(const onnx::ValueInfo& value) {
  json::array dims;
  if (!value.shape) return dims;
  for (const onnx::Dim& dim : *value.shape) {
    if (dim.known()) {
      dims.emplace_back(dim.value);
    } else {
      dims.emplace_back(dim.symbol);
    }
  }
  return dims;
}

json::object ValueJson(const onnx::ValueInfo& value) {
  return {
      {"name", value.name}, {"type", onnx::ElementTypeName(value.type)}, {"dims", DimsJson(value)}};
}

json::object Describe(const onnx::LayeredModel& layered) {
  json::array boundaries;
  for (const onnx::Boundary& boundary : layered.boundaries) {
    boundaries.push_back(
        json::object{{"value", boundary.value}, {"type", onnx::ElementTypeName(boundary.type)}});
  }
  json::array states;
  for (const onnx::LayerState& state : layered.io.states) {
    json::array inputs;
    for (const std::string& name : state.inputs) {
      inputs.push_back(ValueJson(*layered.model.graph.FindInput(name)));
    }
    json::array outputs(state.outputs.begin(), state.outputs.end());
    states.push_back(json::object{{"inputs", std::move(inputs)}, {"outputs", std::move(outputs)}});
  }
  return {{"layers", layered.layer_count()},     {"hidden_size", layered.hidden_size},
          {"tokens", layered.io.tokens},         {"logits", layered.io.logits},
          {"boundaries", std::move(boundaries)}, {"states", std::move(states)}};
}

Status WriteBlobs(const onnx::Graph& graph, const std::map<std::string, onnx::WeightBlob>& blobs,
                  const std::filesystem::path& out) {
  std::set<Sha256Digest> written;
  for (const auto& [name, blob] : blobs) {
    if (!written.insert(blob.digest).second) continue;
    const onnx::Tensor* tensor = graph.FindInitializer(name);
    TRY(WriteFileAtomically(out / ToHex(blob.digest), tensor->data.bytes()));
    onnx::DropPages(*tensor);
  }
  return OkStatus();
}

Result<json::array> WriteParts(const onnx::LayeredModel& layered, bool pairs,
                               const std::filesystem::path& out) {
  const onnx::LayerCutter cutter(layered);
  json::array parts;
  for (const auto& [first, end] : Ranges(layered.layer_count(), pairs)) {
    ASSIGN_OR_RETURN(const onnx::Model part, cutter.Extract(first, end));
    const std::string file = "part_" + std::to_string(first) + "_" + std::to_string(end) + ".onnx";
    TRY(onnx::SaveModel(part, out / file));
    json::array inputs;
    for (const onnx::ValueInfo& input : part.graph.inputs) inputs.push_back(ValueJson(input));
    json::array outputs;
    for (const onnx::ValueInfo& output : part.graph.outputs) outputs.push_back(ValueJson(output));
    parts.push_back(json::object{{"first", first},
                                 {"end", end},
                                 {"file", file},
                                 {"nodes", part.graph.nodes.size()},
                                 {"inputs", std::move(inputs)},
                                 {"outputs", std::move(outputs)}});
  }
  return parts;
}

}  // namespace

Status OnnxSplit(const OnnxSplitOptions& options) {
  ASSIGN_OR_RETURN(const std::filesystem::path path, onnx::FindModelFile(options.model));
  ASSIGN_OR_RETURN(onnx::Model model, onnx::LoadModel(path));
  ASSIGN_OR_RETURN(onnx::LayeredModel layered,
                   onnx::FindLayers(std::move(model))
                       .Context("While looking for the layers of '" + path.string() + "'"));
  TRY(onnx::CheckCuts(layered));
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error) {
    return Error(ErrorCode::kIo, "Cannot create the folder '" + options.out.string() +
                                     "': " + error.message() + ".");
  }
  ASSIGN_OR_RETURN(const auto blobs, onnx::ExternalizeWeights(layered.model.graph, kBlobFromBytes));
  TRY(WriteBlobs(layered.model.graph, blobs, options.out));
  onnx::DropExternalBytes(layered.model.graph);
  ASSIGN_OR_RETURN(json::array parts, WriteParts(layered, options.pairs, options.out));
  json::object split = Describe(layered);
  split["model"] = std::filesystem::absolute(path).string();
  split["parts"] = std::move(parts);
  return WriteFileAtomically(options.out / "split.json", AsBytes(json::serialize(split)));
}

}  // namespace weft
