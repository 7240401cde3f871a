#include "convert/convert.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/file.h"
#include "convert/graph/graph_builder.h"
#include "convert/model/parse_config.h"
#include "convert/onnx/onnx_import.h"
#include "convert/package/layer_info.h"
#include "convert/package/package_files.h"
#include "convert/package/package_folder.h"
#include "convert/source/embedding_source.h"
#include "convert/source/open_source.h"
#include "convert/source/tensor_names.h"
#include "convert/weights/weight_specs.h"
#include "convert/weights/weight_store.h"
#include "onnx/write.h"
#include "tensor/blocks.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

// The narrowest dtype that is as wide as both.
DType Wider(DType a, DType b) {
  // Rows of one k-quant are no rows of another.
  if (a != b && IsKQuant(a)) a = DType::kQ8;
  if (a != b && IsKQuant(b)) b = DType::kQ8;
  if (a == b || a == DType::kF32 || b == DType::kQ4) return a;
  if (b == DType::kF32 || a == DType::kQ4) return b;
  if (IsBlockFormat(a) || IsBlockFormat(b)) return IsBlockFormat(a) ? b : a;
  return DType::kF32;  // f16 and bf16
}

// Tables of layers' own inputs stay q8, and so does what is not made of a tensor's rows as they
// are.
bool MayKeepKQuants(const WeightSpec& weight) {
  const bool has_form = weight.role == WeightRole::kMatrix || weight.role == WeightRole::kExpert ||
                        weight.role == WeightRole::kVocabulary;
  return has_form && weight.offset == 0 && !weight.minus_exp && weight.factor == 1 &&
         std::ranges::none_of(weight.pieces, [](const SourcePiece& piece) {
           return piece.transposed || !piece.factors.empty();
         });
}

DType KeptDType(const WeightSpec& weight, const TensorMap& tensors, bool keeps_k_quants) {
  const bool keeps = keeps_k_quants && MayKeepKQuants(weight);
  DType dtype = KeptDType(FormatOf(weight.pieces.front(), tensors), keeps);
  for (const SourcePiece& piece : weight.pieces) {
    dtype = Wider(dtype, KeptDType(FormatOf(piece, tensors), keeps));
  }
  return dtype;
}

DType TargetDType(const WeightSpec& weight, const TensorMap& tensors,
                  const ConvertOptions& options) {
  const std::optional<DType>& quantisation = options.quantisation;
  if (weight.role == WeightRole::kVector) return DType::kF32;
  if (!quantisation) {
    const DType kept = KeptDType(weight, tensors, options.keeps_k_quants);
    return weight.role == WeightRole::kRouter && IsBlockFormat(kept) ? DType::kF16 : kept;
  }
  if (weight.role == WeightRole::kMatrix || !IsBlockFormat(*quantisation)) return *quantisation;
  if (weight.role == WeightRole::kRouter) return DType::kF16;
  // Lookups in a quantised table want whole blocks.
  if (weight.shape[1] % kBlockValues != 0) return DType::kF16;
  const bool is_q4s = *quantisation == DType::kQ4S;
  // Tables are read row by row: the products that q4s is made for do not happen.
  if (weight.role == WeightRole::kTable) return is_q4s ? DType::kQ4 : *quantisation;
  // Rows of q6k are whole superblocks.
  return is_q4s && weight.shape[1] % kSuperblockValues == 0 ? DType::kQ6K : DType::kQ8;
}

// The widest of what a layer's experts are kept in; onnxruntime's quantised ones want whole blocks.
DType CommonExpertDType(const std::vector<WeightSpec>& layer, const TensorMap& tensors,
                        const std::optional<DType>& quantisation) {
  DType dtype = quantisation.value_or(DType::kQ4);
  for (const WeightSpec& weight : layer) {
    if (weight.role != WeightRole::kExpert) continue;
    if (!quantisation) dtype = Wider(dtype, KeptDType(weight, tensors, false));
    // What multiplies with stacked experts takes no zero points; in q8 they are not needed.
    if (!quantisation && dtype == DType::kQ4 && HasZeroPoints(weight, tensors)) dtype = DType::kQ8;
    if (IsBlockFormat(dtype) && weight.shape[1] % kBlockValues != 0) dtype = DType::kF16;
  }
  return dtype;
}

// "down_proj.weight" of any expert.
std::string MatrixOf(const WeightSpec& expert) {
  return expert.name.substr(expert.blob.size());
}

// By matrix. The experts of a layer are stacked, so all of them have one dtype, and so have their
// matrices, which one operator of onnxruntime takes. K-quants are not onnxruntime's: there each
// matrix may have its own.
std::map<std::string, DType> ExpertDTypes(const std::vector<WeightSpec>& layer,
                                          const TensorMap& tensors, const ConvertOptions& options) {
  std::map<std::string, DType> kept;
  for (const WeightSpec& weight : layer) {
    if (weight.role != WeightRole::kExpert) continue;
    const DType own = KeptDType(weight, tensors, options.keeps_k_quants);
    const auto [found, is_first] = kept.emplace(MatrixOf(weight), own);
    if (!is_first) found->second = Wider(found->second, own);
  }
  const bool are_k_quants =
      std::ranges::all_of(kept, [](const auto& entry) { return IsKQuant(entry.second); });
  if (are_k_quants && !options.quantisation) return kept;
  const DType common = CommonExpertDType(layer, tensors, options.quantisation);
  for (auto& [name, dtype] : kept) dtype = common;
  return kept;
}

// The name that the manifest gives to the dtype of the matrices.
std::string QuantisationName(const std::optional<DType>& quantisation,
                             const StoredWeights& weights) {
  if (quantisation) return std::string(DTypeName(*quantisation));
  std::set<DType> dtypes;
  for (const auto& [name, weight] : weights) {
    if (weight.shape.size() > 1) dtypes.insert(weight.dtype);
  }
  if (std::ranges::any_of(dtypes, IsKQuant)) return "mixed-k";
  return dtypes.size() == 1 ? std::string(DTypeName(*dtypes.begin())) : "mixed";
}

// Whether there is a form that onnxruntime has no operator for.
bool HasOwnForms(const StoredWeights& weights) {
  return std::ranges::any_of(
      weights, [](const auto& entry) { return IsSuperblockFormat(entry.second.dtype); });
}

class Converter {
 public:
  Converter(const ConvertOptions& options, std::function<void(const ConvertProgress&)> progress)
      : options_(options), progress_(std::move(progress)) {}

  Result<ConvertReport> Run() {
    ASSIGN_OR_RETURN(source_, OpenSource(options_.source));
    TextFiles& files = source_.files;
    ASSIGN_OR_RETURN(embedding_, FindEmbedding(source_, options_.embedding));
    ASSIGN_OR_RETURN(config_, ParseModelConfig(files.at("config.json"), options_.context_length,
                                               embedding_.has_value()));
    warnings_ = source_.warnings;
    if (config_.wrapped) UnwrapTensors();
    if (AreHeadless(source_.tensors)) TRY(NameHeadless());
    RenameTensors(config_.architecture, &source_.tensors);
    if (!options_.without_tokenizer) {
      ASSIGN_OR_RETURN(const auto found, CheckTokenizer(files, config_.vocabulary));
      warnings_.insert(warnings_.end(), found.begin(), found.end());
    }
    warnings_.insert(warnings_.end(), config_.notes.begin(), config_.notes.end());
    const auto specs = SpecifyWeights(config_, source_.tensors);
    TRY(CheckWeights(specs, source_.tensors));
    ASSIGN_OR_RETURN(PackageFolder folder, PackageFolder::Open(options_.package, options_.force));
    RoundEmbeddingScales(specs[0]);
    WeightStore store(folder.partial(), source_.tensors,
                      [this](uint64_t byte_count, bool taken_over) {
                        done_.done_bytes += byte_count;
                        if (taken_over) done_.kept_bytes += byte_count;
                        progress_(done_);
                      });
    TRY(StoreWeights(specs, source_.tensors, &store));
    const BuiltModel built = BuildModel(config_, store.weights(), LayerScalars());
    ASSIGN_OR_RETURN(const std::string graph, onnx::SerializeModel(built.model));
    files.emplace("model.onnx", graph);
    const std::string quantisation = QuantisationName(options_.quantisation, store.weights());
    ASSIGN_OR_RETURN(DescribedLayers described,
                     Describe(built, package::KvDType(quantisation), &store));
    if (!described.lowered && (HasOwnOperators(config_) || HasOwnForms(store.weights()))) {
      return Error(ErrorCode::kUnsupported, described.why_not_lowered);
    }
    store.RemoveLeftovers();
    const package::Manifest manifest = MakeManifest(store, described);
    TRY(WritePackageFiles(folder.partial(), manifest, files));
    TRY(folder.Publish());
    return MakeReport(manifest, described);
  }

 private:
  // The decoder's tensors of a model with towers get the names that they have in one without. What
  // is left is what text does not need.
  void UnwrapTensors() {
    constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
        {"model.language_model.", "model."},
        {"language_model.model.", "model."},
        {"language_model.lm_head.", "lm_head."}};
    TensorMap kept;
    size_t skipped = 0;
    for (auto& [name, tensor] : source_.tensors) {
      const auto* prefix = std::find_if(
          std::begin(kPrefixes), std::end(kPrefixes),
          [own = std::string_view(name)](const auto& p) { return own.starts_with(p.first); });
      if (prefix != std::end(kPrefixes)) {
        if (tensor.own_name.empty()) tensor.own_name = name;
        kept.emplace(std::string(prefix->second) + name.substr(prefix->first.size()), tensor);
      } else if (name.starts_with("lm_head.")) {
        kept.emplace(name, tensor);
      } else {
        ++skipped;
      }
    }
    if (skipped > 0) {
      warnings_.push_back("The model takes text only: " + std::to_string(skipped) +
                          " tensors of its towers for pictures or sound are left out.");
    }
    source_.tensors = std::move(kept);
  }

  Status NameHeadless() {
    if (!embedding_)
      return Error(ErrorCode::kUnsupported,
                   "The checkpoint has no output head and writes no text. To make embeddings with "
                   "it, say how its rows become one: --embedding mean or --embedding last.");
    NameAsWithHead(&source_.tensors);
    return OkStatus();
  }

  // transformers multiplies in the dtype of the table: Gemma was trained with the rounded factor.
  // A package in f32 is the model as transformers computes it in f32.
  void RoundEmbeddingScales(const std::vector<WeightSpec>& embedding) {
    if (!config_.rounds_embedding_scale || options_.quantisation == DType::kF32) return;
    for (const WeightSpec& weight : embedding) {
      const bool is_table =
          weight.role == WeightRole::kVocabulary || weight.role == WeightRole::kTable;
      const DType dtype = KeptDType(FormatOf(weight.pieces[0], source_.tensors));
      if (!is_table || IsBlockFormat(dtype)) continue;
      float& scale =
          weight.role == WeightRole::kTable ? config_.layer_inputs.scale : config_.embedding_scale;
      std::array<uint8_t, sizeof(float)> rounded{};
      FromF32({&scale, 1}, dtype, rounded.data());
      ToF32(dtype, rounded.data(), {&scale, 1});
    }
  }

  // A change of type that "keep" could not avoid.
  using Widening = std::pair<RowFormat, DType>;
  static void CountWidened(const StoreJob& job, const TensorMap& tensors,
                           std::map<Widening, uint64_t>* widened) {
    if (job.weight->role == WeightRole::kVector) return;
    for (const SourcePiece& piece : job.weight->pieces) {
      const RowFormat format = FormatOf(piece, tensors);
      const bool is_plain = BlockValues(format) == 1 && !IsBlockFormat(job.dtype);
      if (!is_plain && !IsExact(format, job.dtype)) ++(*widened)[{format, job.dtype}];
    }
  }

  // What layers read that is not in the checkpoint.
  void StoreTables(WeightStore* store) const {
    const std::vector<RopeConfig> rotations = config_.Rotations();
    for (size_t i = 0; i < rotations.size(); ++i) {
      store->StoreVector(FrequenciesName(i), InverseFrequencies(rotations[i]));
    }
    if (!config_.value_norm) return;
    std::set<uint32_t> widths;
    for (const LayerConfig& layer : config_.layers) widths.insert(layer.head_columns);
    for (const uint32_t width : widths) {
      store->StoreVector(OnesName(width), std::vector<float>(width, 1));
    }
  }

  // The numbers that layers end with. REQUIRES: CheckWeights passed.
  std::vector<float> LayerScalars() const {
    std::vector<float> scalars;
    for (uint32_t layer = 1; config_.layer_scalars && layer <= config_.layer_count(); ++layer) {
      const SourceTensor& tensor =
          source_.tensors.find(LayerPrefix(layer) + "layer_scalar")->second;
      scalars.push_back(0);
      ToF32(KeptDType(*tensor.format), tensor.bytes.bytes().data(), {&scalars.back(), 1});
    }
    return scalars;
  }

  Status StoreWeights(const std::vector<std::vector<WeightSpec>>& specs, const TensorMap& tensors,
                      WeightStore* store) {
    for (const auto& layer : specs) {
      for (const WeightSpec& weight : layer) {
        done_.total_bytes += SourceByteCount(weight, tensors);
      }
    }
    progress_(done_);
    std::map<Widening, uint64_t> widened;
    StoreTables(store);
    TRY(store->FinishLayer());
    for (const auto& layer : specs) {
      const auto expert_dtypes = ExpertDTypes(layer, tensors, options_);
      std::vector<StoreJob> jobs;  // of one blob
      for (size_t i = 0; i < layer.size(); ++i) {
        jobs.push_back({&layer[i], layer[i].role == WeightRole::kExpert
                                       ? expert_dtypes.at(MatrixOf(layer[i]))
                                       : TargetDType(layer[i], tensors, options_)});
        const bool goes_on =
            !layer[i].blob.empty() && i + 1 < layer.size() && layer[i + 1].blob == layer[i].blob;
        if (!options_.quantisation) CountWidened(jobs.back(), tensors, &widened);
        if (goes_on) continue;
        TRY(store->Store(jobs));
        jobs.clear();
      }
      TRY(store->FinishLayer());
    }
    for (const auto& [types, count] : widened) {
      warnings_.push_back(std::string(RowFormatName(types.first)) + " -> " +
                          std::string(DTypeName(types.second)) + " (" + std::to_string(count) +
                          " tensors, not bit-exact).");
    }
    return OkStatus();
  }

  // A graph does not show where its layers are that share more than one tensor, or have no cache.
  Result<DescribedLayers> Describe(const BuiltModel& built, DType kv_dtype,
                                   WeightStore* store) const {
    const auto store_program = [&](ByteSpan bytes) { return store->StoreBlob(bytes); };
    const bool all_have_mlps = std::ranges::all_of(config_.layers, &LayerConfig::has_mlp);
    if (config_.KeptTogether().empty() && all_have_mlps) {
      return DescribeLayers(built.model, kv_dtype, store_program);
    }
    ASSIGN_OR_RETURN(const onnx::LayeredModel layered,
                     onnx::NameLayers(built.model, built.embedding, built.boundaries));
    return DescribeLayers(layered, kv_dtype, store_program, lower::LowerLayer);
  }

  package::Manifest MakeManifest(const WeightStore& store, const DescribedLayers& described) const {
    package::Manifest manifest;
    manifest.name = options_.name.empty() ? source_.name : options_.name;
    manifest.architecture = config_.architecture;
    manifest.quantisation = QuantisationName(options_.quantisation, store.weights());
    const bool is_f32 = options_.quantisation == DType::kF32;
    manifest.boundary_dtype = options_.boundary_dtype.value_or(is_f32 ? DType::kF32 : DType::kF16);
    manifest.hidden_columns = config_.hidden_columns;
    manifest.vocabulary = config_.vocabulary;
    manifest.context_length = config_.context_length;
    if (embedding_) {
      manifest.embedding = embedding_->embedding;
      manifest.context_length =
          std::min(config_.context_length, embedding_->token_limit.value_or(UINT32_MAX));
    }
    manifest.lowered = described.lowered;
    manifest.has_onnx = !HasOwnOperators(config_) && !HasOwnForms(store.weights());
    manifest.layers = described.layers;
    manifest.keep_together = config_.KeptTogether();
    manifest.blobs = store.blobs();
    return manifest;
  }

  ConvertReport MakeReport(const package::Manifest& manifest,
                           const DescribedLayers& described) const {
    ConvertReport report;
    report.name = manifest.name;
    report.architecture = manifest.architecture;
    report.quantisation = manifest.quantisation;
    if (manifest.embedding) report.pooling = package::PoolingName(manifest.embedding->pooling);
    report.transformer_layers = config_.layer_count();
    report.source_bytes = done_.total_bytes;
    report.kept_bytes = done_.kept_bytes;
    for (const auto& [digest, info] : manifest.blobs) report.package_bytes += info.byte_count;
    report.lowered = described.lowered;
    report.why_not_lowered = described.why_not_lowered;
    report.warnings = warnings_;
    return report;
  }

  const ConvertOptions& options_;
  const std::function<void(const ConvertProgress&)> progress_;
  Source source_;
  std::optional<FoundEmbedding> embedding_;
  ModelConfig config_;
  ConvertProgress done_;
  std::vector<std::string> warnings_;
};

}  // namespace

Result<ConvertReport> ConvertCheckpoint(
    const ConvertOptions& options, const std::function<void(const ConvertProgress&)>& progress) {
  if (IsOnnxSource(options.source)) return ImportOnnx(options, progress);
  return Converter(options, progress).Run();
}

}  // namespace weft::convert
