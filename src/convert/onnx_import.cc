#include "convert/onnx_import.h"

#include <algorithm>
#include <set>

#include "convert/layer_info.h"
#include "convert/onnx_config.h"
#include "convert/package_files.h"
#include "convert/package_folder.h"
#include "convert/weight_recipes.h"
#include "onnx/extract.h"
#include "onnx/layers.h"
#include "onnx/load.h"
#include "onnx/model_file.h"
#include "onnx/weights.h"
#include "onnx/write.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

using onnx::Tensor;
using program::TracedLayer;
using program::WeightRecipe;

// Smaller constants stay inside model.onnx.
constexpr uint64_t kBlobFromBytes = 1024;

// The dtype of the matrices: of the programs' if there are any, else of the graph's.
std::string QuantisationName(const onnx::Graph& graph, const std::vector<TracedLayer>& layers) {
  std::set<std::string> names;
  for (const TracedLayer& layer : layers) {
    for (const program::Weight& weight : layer.program.weights) {
      if (weight.shape.size() > 1) names.emplace(DTypeName(weight.dtype));
    }
  }
  if (layers.empty()) {
    for (const auto& [name, tensor] : graph.initializers) {
      if (tensor.dims.size() > 1 && tensor.byte_count >= kBlobFromBytes) {
        names.emplace(onnx::ElementTypeName(tensor.type));
      }
    }
  }
  return names.size() == 1 ? *names.begin() : "mixed";
}

class Importer {
 public:
  Importer(const ConvertOptions& options,
           const std::function<void(const ConvertProgress&)>& progress)
      : options_(options), progress_(progress) {}

  Result<ConvertReport> Run() {
    if (options_.quantisation) {
      return Error(ErrorCode::kUnsupported,
                   "--quant is for checkpoints; the weights of an ONNX model are taken as they "
                   "are (--quant keep).");
    }
    TRY(ReadFolder());
    TRY(ReadGraph());
    TRY(Lower());
    ASSIGN_OR_RETURN(PackageFolder folder, PackageFolder::Open(options_.package, options_.force));
    ArrayStore store(folder.partial(), [this](uint64_t byte_count) {
      done_.done_bytes += byte_count;
      progress_(done_);
    });
    TRY(Store(&store));
    ASSIGN_OR_RETURN(const DescribedLayers described, Describe(&store));
    store.RemoveLeftovers();
    const package::Manifest manifest = MakeManifest(described, store);
    TRY(WritePackageFiles(folder.partial(), manifest, files_));
    TRY(folder.Publish());
    return MakeReport(manifest);
  }

 private:
  Status ReadFolder() {
    ASSIGN_OR_RETURN(model_path_, onnx::FindModelFile(options_.source));
    folder_ = fs::is_directory(options_.source) ? options_.source : model_path_.parent_path();
    ASSIGN_OR_RETURN(files_, ReadOnnxTexts(folder_));
    ASSIGN_OR_RETURN(config_, ReadOnnxConfig(files_));
    return OkStatus();
  }

  Status ReadGraph() {
    const std::string where = "While reading '" + model_path_.string() + "'";
    ASSIGN_OR_RETURN(onnx::Model model, onnx::LoadModel(model_path_).Context(where));
    ASSIGN_OR_RETURN(layered_, onnx::FindLayers(std::move(model)).Context(where));
    TRY(onnx::CheckCuts(layered_));
    if (layered_.hidden_size < 1) {
      return Error(ErrorCode::kUnsupported,
                   "The graph does not tell the columns of its residual stream.");
    }
    const onnx::ValueInfo* logits = layered_.model.graph.FindOutput(layered_.io.logits);
    if (logits != nullptr && logits->shape && !logits->shape->empty() &&
        logits->shape->back().known()) {
      config_.vocabulary = static_cast<uint32_t>(logits->shape->back().value);
    }
    if (config_.vocabulary == 0) {
      return Error(ErrorCode::kUnsupported,
                   "Neither the graph nor its configuration tells the size of the vocabulary.");
    }
    if (options_.without_tokenizer) return OkStatus();
    ASSIGN_OR_RETURN(warnings_, CheckTokenizer(files_, config_.vocabulary));
    return OkStatus();
  }

  // Traces each layer; the first that cannot be lowered leaves none.
  Status Lower() {
    const onnx::LayerCutter cutter(layered_);
    for (int i = 0; i < layered_.layer_count(); ++i) {
      ASSIGN_OR_RETURN(const onnx::Model part, cutter.Extract(i, i + 1));
      for (const auto& [name, tensor] : part.graph.initializers) readers_[name].insert(i);
      if (!why_not_lowered_.empty()) continue;
      auto traced = program::TraceLayer(part, static_cast<uint32_t>(i), config_.context_length);
      if (traced.ok()) {
        layers_.push_back(std::move(traced).value());
      } else {
        why_not_lowered_ = traced.error().ToString();
        layers_.clear();
      }
    }
    return OkStatus();
  }

  // Matrices that are read as [N, K] alone.
  std::set<std::string> TransposedNames() const {
    std::set<std::string> transposed, plain;
    for (const TracedLayer& layer : layers_) {
      for (const WeightRecipe& recipe : layer.recipes) {
        if (recipe.form == WeightRecipe::Form::kTransposed) transposed.insert(recipe.data);
        if (recipe.form == WeightRecipe::Form::kPlain) plain.insert(recipe.data);
      }
    }
    for (const std::string& name : plain) transposed.erase(name);
    return transposed;
  }

  // Experts whose rows programs read in another order, and the keys of their arrays.
  std::map<std::string, std::string> ApartNames() const {
    std::map<std::string, std::string> apart;
    for (const TracedLayer& layer : layers_) {
      for (size_t i = 0; i < layer.recipes.size(); ++i) {
        const auto key = ApartKey(layer.program.weights[i], layer.recipes[i]);
        if (key) apart.emplace(layer.recipes[i].data, *key);
      }
    }
    return apart;
  }

  Status Store(ArrayStore* store) {
    const onnx::Graph& graph = layered_.model.graph;
    const std::set<std::string> transposed = TransposedNames();
    apart_ = ApartNames();
    for (const auto& [name, layers] : readers_) {
      const Tensor* tensor = graph.FindInitializer(name);
      if (tensor == nullptr || tensor->byte_count < kBlobFromBytes) continue;
      if (apart_.contains(name)) continue;  // a program's array serves the graph too
      for (const int layer : layers) {
        if (transposed.contains(name)) {
          AddTransposed(graph, name, layer, store);
        } else {
          AddInitializer(graph, name, layer, store);
        }
      }
      (transposed.contains(name) ? turned_ : kept_).insert(name);
    }
    bool rounded = false;
    for (const TracedLayer& layer : layers_) {
      if (const Status added = AddWeights(graph, layer, store, &rounded); !added.ok()) {
        return std::move(added).error();
      }
    }
    if (rounded) {
      warnings_.push_back(
          "scales of 4-bit weights are float32 in the model; programs hold them as float16, "
          "rounded by at most 1 part in 2048.");
    }
    done_.total_bytes = store->byte_count();
    progress_(done_);
    return store->Write();
  }

  // The graph refers to blobs from here on.
  onnx::Model GraphOnly(const ArrayStore& store) const {
    onnx::Model model = layered_.model;
    for (const std::string& name : kept_) {
      Tensor& tensor = model.graph.initializers.find(name)->second;
      SetLocation(store.At(InitializerKey(name)), &tensor);
    }
    std::vector<onnx::Node> nodes;
    for (const std::string& name : turned_) {
      Tensor tensor = model.graph.initializers.find(name)->second;
      const size_t rank = tensor.dims.size();
      std::swap(tensor.dims[rank - 2], tensor.dims[rank - 1]);
      SetLocation(store.At(TransposedKey(name)), &tensor);
      model.graph.initializers.erase(name);
      model.graph.AddInitializer(name + ".transposed", std::move(tensor));
      onnx::Node node;
      node.op_type = "Transpose";
      node.name = name + "/Transpose";
      node.inputs = {name + ".transposed"};
      node.outputs = {name};
      node.Set(onnx::Attribute::Of(
          "perm", rank == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 2, 1}));
      nodes.push_back(std::move(node));
    }
    for (const auto& [name, key] : apart_) PutInTurn(name, store.At(key), &model.graph, &nodes);
    model.graph.nodes.insert(model.graph.nodes.begin(), nodes.begin(), nodes.end());
    onnx::DropExternalBytes(model.graph);
    return model;
  }

  // Experts that lie with gate first and up below come as rows in turn, as the graph has them:
  // [experts, 2, width, bytes] with the middle axes exchanged.
  static void PutInTurn(const std::string& name, const StoredArray& array, onnx::Graph* graph,
                        std::vector<onnx::Node>* nodes) {
    Tensor tensor = graph->initializers.find(name)->second;
    const std::vector<int64_t> dims = tensor.dims;
    SetLocation(array, &tensor);
    graph->initializers.erase(name);
    graph->AddInitializer(name + ".apart", std::move(tensor));
    graph->AddInitializer(name + ".halves",
                          Tensor::FromInt64s({4}, {dims[0], 2, dims[1] / 2, dims[2]}));
    graph->AddInitializer(name + ".rows", Tensor::FromInt64s({3}, dims));
    const auto add = [&](const char* op, std::vector<std::string> in, const std::string& out) {
      onnx::Node node;
      node.op_type = op;
      node.name = out + "/" + op;
      node.inputs = std::move(in);
      node.outputs = {out};
      nodes->push_back(std::move(node));
    };
    add("Reshape", {name + ".apart", name + ".halves"}, name + ".split");
    add("Transpose", {name + ".split"}, name + ".in_turn");
    nodes->back().Set(onnx::Attribute::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
    add("Reshape", {name + ".in_turn", name + ".rows"}, name);
  }

  static void SetLocation(const StoredArray& array, Tensor* tensor) {
    tensor->location = array.blob.ToHex();
    tensor->offset = array.offset;
    tensor->mapped = false;
  }

  Result<DescribedLayers> Describe(ArrayStore* store) {
    const onnx::Model model = GraphOnly(*store);
    ASSIGN_OR_RETURN(const std::string graph, onnx::SerializeModel(model));
    files_.emplace("model.onnx", graph);
    quantisation_ = QuantisationName(layered_.model.graph, layers_);
    const auto lower = [&](const onnx::Model&, uint32_t layer) -> Result<program::Program> {
      if (layers_.empty()) return Error(ErrorCode::kUnsupported, why_not_lowered_);
      return FinishProgram(layered_.model.graph, layers_[layer], *store);
    };
    return DescribeLayers(
        model, package::KvDType(quantisation_),
        [&](ByteSpan bytes) { return store->StoreBlob(bytes); }, lower);
  }

  package::Manifest MakeManifest(const DescribedLayers& described, const ArrayStore& store) {
    package::Manifest manifest;
    const fs::path folder = fs::absolute(folder_).lexically_normal();
    manifest.name = !options_.name.empty()  ? options_.name
                    : folder.has_filename() ? folder.filename().string()
                                            : folder.parent_path().filename().string();
    manifest.architecture = config_.architecture;
    manifest.quantisation = quantisation_;
    manifest.boundary_dtype =
        options_.boundary_dtype.value_or(quantisation_ == "f32" ? DType::kF32 : DType::kF16);
    manifest.hidden_columns = static_cast<uint32_t>(layered_.hidden_size);
    manifest.vocabulary = config_.vocabulary;
    manifest.context_length = config_.context_length;
    manifest.lowered = described.lowered;
    manifest.layers = described.layers;
    manifest.blobs = store.blobs();
    why_not_lowered_ = described.why_not_lowered;
    return manifest;
  }

  ConvertReport MakeReport(const package::Manifest& manifest) const {
    ConvertReport report;
    report.name = manifest.name;
    report.architecture = manifest.architecture;
    report.quantisation = manifest.quantisation;
    report.transformer_layers = static_cast<uint32_t>(layered_.layer_count() - 2);
    report.source_bytes = done_.total_bytes;
    for (const auto& [digest, info] : manifest.blobs) report.package_bytes += info.byte_count;
    report.lowered = manifest.lowered;
    report.why_not_lowered = why_not_lowered_;
    report.warnings = warnings_;
    return report;
  }

  const ConvertOptions& options_;
  const std::function<void(const ConvertProgress&)>& progress_;
  fs::path model_path_, folder_;
  TextFiles files_;
  OnnxConfig config_;
  onnx::LayeredModel layered_;
  std::map<std::string, std::set<int>> readers_;  // initializer -> layers that read it
  std::vector<TracedLayer> layers_;               // empty when one could not be lowered
  std::string why_not_lowered_, quantisation_;
  std::map<std::string, std::string> apart_;  // experts whose rows lie apart -> key of the array
  std::set<std::string> kept_,
      turned_;  // initializers that lie in blobs, as they are or transposed
  ConvertProgress done_;
  std::vector<std::string> warnings_;
};

}  // namespace

bool IsOnnxSource(const fs::path& source) {
  std::error_code failure;
  if (!fs::is_directory(source, failure)) return source.extension() == ".onnx";
  for (const char* checkpoint : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(source / checkpoint, failure)) return false;
  }
  return onnx::FindModelFile(source).ok();
}

Result<ConvertReport> ImportOnnx(const ConvertOptions& options,
                                 const std::function<void(const ConvertProgress&)>& progress) {
  return Importer(options, progress).Run();
}

}  // namespace weft::convert
