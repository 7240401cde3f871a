#include "convert/onnx/onnx_import.h"

#include <algorithm>
#include <set>

#include "convert/onnx/blob_graph.h"
#include "convert/onnx/onnx_config.h"
#include "convert/onnx/weight_recipes.h"
#include "convert/package/layer_info.h"
#include "convert/package/package_files.h"
#include "convert/package/package_folder.h"
#include "convert/source/source_folder.h"
#include "onnx/extract.h"
#include "onnx/layers.h"
#include "onnx/load.h"
#include "onnx/model_file.h"
#include "onnx/weights.h"
#include "onnx/write.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

using lower::TracedLayer;
using lower::WeightRecipe;
using onnx::Tensor;

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

// Where the configuration of an ONNX file lies: beside it; or above it when it is in the folder
// onnx/ that exporters put their graphs into.
fs::path ConfigFolder(const fs::path& model) {
  const fs::path folder = fs::absolute(model).lexically_normal().parent_path();
  std::error_code failure;
  const bool has_config = fs::exists(folder / "config.json", failure) ||
                          fs::exists(folder / "genai_config.json", failure);
  return !has_config && folder.filename() == "onnx" ? folder.parent_path() : folder;
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
    if (options_.embedding.pooling) {
      return Error(ErrorCode::kUnsupported,
                   "--embedding is for checkpoints and GGUF files; an ONNX decoder is taken as it "
                   "is, with its head.");
    }
    TRY(ReadFolder());
    TRY(ReadGraph());
    TRY(Lower());
    ASSIGN_OR_RETURN(PackageFolder folder, PackageFolder::Open(options_.package, options_.force));
    ArrayStore store(folder.partial(), source_version_,
                     [this](uint64_t byte_count, bool taken_over) {
                       done_.done_bytes += byte_count;
                       if (taken_over) done_.kept_bytes += byte_count;
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
    if (fs::is_directory(options_.source)) {
      folder_ = options_.source;
      TRY(SourceFile(model_path_.parent_path(), model_path_.filename().string()));
    } else {
      folder_ = ConfigFolder(model_path_);
    }
    ASSIGN_OR_RETURN(files_, ReadOnnxTexts(folder_));
    ASSIGN_OR_RETURN(config_, ReadOnnxConfig(files_));
    return OkStatus();
  }

  Status ReadGraph() {
    const std::string where = "While reading '" + model_path_.string() + "'";
    ASSIGN_OR_RETURN(onnx::Model model,
                     onnx::LoadModel(model_path_, {.version = &source_version_}).Context(where));
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
      auto traced = lower::TraceLayer(part, static_cast<uint32_t>(i), config_.context_length);
      if (traced.ok()) {
        layers_.push_back(std::move(traced).value());
      } else {
        why_not_lowered_ = traced.error().ToString();
        layers_.clear();
      }
    }
    if (!layered_.was_merged || why_not_lowered_.empty()) return OkStatus();
    return Error(ErrorCode::kUnsupported,
                 "The graph is a merged decoder ('use_cache_branch'), and weft cannot tell whether "
                 "the branch with a past masks the later tokens of a prompt: " +
                     why_not_lowered_ + " Export one graph for prompts and later tokens.");
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
  std::map<std::string, std::string> DeinterleavedNames() const {
    std::map<std::string, std::string> deinterleaved;
    for (const TracedLayer& layer : layers_) {
      for (size_t i = 0; i < layer.recipes.size(); ++i) {
        const auto key = DeinterleavedKey(layer.program.weights[i], layer.recipes[i]);
        if (key) deinterleaved.emplace(layer.recipes[i].data, *key);
      }
    }
    return deinterleaved;
  }

  Status Store(ArrayStore* store) {
    const onnx::Graph& graph = layered_.model.graph;
    const std::set<std::string> transposed = TransposedNames();
    placed_.deinterleaved = DeinterleavedNames();
    for (const auto& [name, layers] : readers_) {
      const Tensor* tensor = graph.FindInitializer(name);
      if (tensor == nullptr || tensor->byte_count < kBlobFromBytes) continue;
      if (placed_.deinterleaved.contains(name)) continue;  // a program's array serves the graph too
      for (const int layer : layers) {
        if (transposed.contains(name)) {
          AddTransposed(graph, name, layer, store);
        } else {
          AddInitializer(graph, name, layer, store);
        }
      }
      (transposed.contains(name) ? placed_.turned : placed_.kept).insert(name);
    }
    bool rounded = false;
    for (const TracedLayer& layer : layers_) {
      if (const Status added = AddWeights(graph, layer, store, &rounded); !added.ok()) {
        return added.error();
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

  Result<DescribedLayers> Describe(ArrayStore* store) {
    // The graph refers to blobs from here on.
    const onnx::Model model = GraphOverBlobs(layered_.model, placed_, *store);
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
    report.kept_bytes = done_.kept_bytes;
    for (const auto& [digest, info] : manifest.blobs) report.package_bytes += info.byte_count;
    report.lowered = manifest.lowered;
    report.why_not_lowered = why_not_lowered_;
    report.warnings = warnings_;
    return report;
  }

  const ConvertOptions& options_;
  const std::function<void(const ConvertProgress&)>& progress_;
  fs::path model_path_, folder_;
  std::string source_version_;  // of the model's files
  TextFiles files_;
  OnnxConfig config_;
  onnx::LayeredModel layered_;
  std::map<std::string, std::set<int>> readers_;  // initializer -> layers that read it
  std::vector<TracedLayer> layers_;               // empty when one could not be lowered
  std::string why_not_lowered_, quantisation_;
  PlacedConstants placed_;
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
  const auto found = onnx::FindModelFile(source);
  if (found.ok()) return true;
  // Several: importing says which there are, unless the folder is another kind of source.
  if (found.error().code() != ErrorCode::kInvalidArgument) return false;
  const fs::directory_iterator files(source, failure);
  return std::none_of(begin(files), end(files), [](const fs::directory_entry& file) {
    return file.path().extension() == ".gguf";
  });
}

Result<ConvertReport> ImportOnnx(const ConvertOptions& options,
                                 const std::function<void(const ConvertProgress&)>& progress) {
  return Importer(options, progress).Run();
}

}  // namespace weft::convert
