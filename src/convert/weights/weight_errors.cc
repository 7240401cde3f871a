#include "convert/weights/weight_errors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "convert/model/parse_config.h"
#include "convert/source/open_source.h"
#include "convert/source/tensor_names.h"
#include "convert/weights/layer_weight.h"
#include "convert/weights/source_rows.h"
#include "convert/weights/weight_specs.h"
#include "program/codec.h"
#include "tensor/blocks.h"

namespace weft::convert {
namespace {

// Where the name of a layer's experts ends: all of them are one weight of the package.
constexpr std::string_view kExperts = ".experts.";

// "model.layers.0.mlp.experts.down_proj.weight" for "model.layers.0.mlp.experts.5.down_proj...".
std::string StackedName(const WeightSpec& expert) {
  const size_t end = expert.blob.rfind(kExperts) + kExperts.size();
  return expert.blob.substr(0, end) + expert.name.substr(expert.blob.size());
}

using Matrices = std::map<std::string, program::Weight>;

// `layer` as in the package. Experts are known by what multiplies with them.
void AddMatrices(const program::Program& program, uint32_t layer, Matrices* matrices) {
  for (const program::Weight& weight : program.weights)
    if (weight.shape.size() == 2) matrices->emplace(weight.name, weight);
  for (const program::Op& op : program.ops) {
    const auto* experts = std::get_if<program::MoeExperts>(&op);
    if (experts == nullptr) continue;
    const std::string prefix = ExpertPrefix(layer, 0);
    const std::string stack = prefix.substr(0, prefix.rfind(kExperts) + kExperts.size());
    matrices->emplace(stack + "gate_up_proj.weight", program.weights[experts->gate_up]);
    matrices->emplace(stack + "down_proj.weight", program.weights[experts->down]);
  }
}

Result<Matrices> MatricesOf(const package::Package& package) {
  Matrices matrices;
  uint32_t index = 0;
  for (const package::LayerInfo& layer : package.manifest.layers) {
    ASSIGN_OR_RETURN(const Slice bytes,
                     package.blobs->Get(layer.program, package.manifest.blobs.at(layer.program)));
    ASSIGN_OR_RETURN(const program::Program program, program::Decode(bytes.bytes()));
    AddMatrices(program, index++, &matrices);
  }
  return matrices;
}

Result<std::vector<uint8_t>> BytesOf(const package::Package& package,
                                     const std::vector<program::Part>& parts) {
  std::vector<uint8_t> bytes;
  for (const program::Part& part : parts) {
    const package::Digest digest(part.digest);
    const auto info = package.manifest.blobs.find(digest);
    if (info == package.manifest.blobs.end())
      return Error(ErrorCode::kNotFound, "The package has no blob " + digest.ToHex() + ".");
    ASSIGN_OR_RETURN(const Slice blob, package.blobs->Get(digest, info->second));
    if (part.offset > blob.byte_count() || part.byte_count > blob.byte_count() - part.offset)
      return Error(ErrorCode::kInvalidData, "Blob " + digest.ToHex() + " is too short.");
    const ByteSpan piece = blob.bytes().subspan(part.offset, part.byte_count);
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

// The rows of a stored matrix, or of all experts' ones, one after the other.
class StoredRows {
 public:
  static Result<StoredRows> Read(const package::Package& package, const program::Weight& weight) {
    StoredRows rows(weight);
    ASSIGN_OR_RETURN(rows.data_, BytesOf(package, weight.data));
    ASSIGN_OR_RETURN(const std::vector<uint8_t> scales, BytesOf(package, weight.scale));
    rows.scales_.resize(scales.size() / 2);
    std::memcpy(rows.scales_.data(), scales.data(), rows.scales_.size() * 2);
    ASSIGN_OR_RETURN(rows.zero_, BytesOf(package, weight.zero));
    return rows;
  }

  void Next(std::span<float> values) {
    const uint64_t columns = weight_.shape.back(), row = row_++;
    const uint64_t data_bytes = RowDataBytes(weight_.dtype, columns);
    const ByteSpan data = ByteSpan(data_).subspan(row * data_bytes, data_bytes);
    if (!IsBlockFormat(weight_.dtype)) return ToF32(weight_.dtype, data.data(), values);
    const uint64_t words = RowScaleBytes(weight_.dtype, columns) / 2;
    const uint64_t zeros = zero_.empty() ? 0 : RowZeroBytes(columns);
    DequantizeRow(weight_.dtype, data, std::span(scales_).subspan(row * words, words),
                  ByteSpan(zero_).subspan(row * zeros, zeros), values);
  }

 private:
  explicit StoredRows(const program::Weight& weight) : weight_(weight) {}

  const program::Weight& weight_;
  std::vector<uint8_t> data_, zero_;
  std::vector<uint16_t> scales_;
  uint64_t row_ = 0;
};

// What was stored of a matrix beside what the checkpoint has.
struct Comparison {
  StoredRows stored;
  double differences = 0, squares = 0;  // sums of squares

  double relative_rms() const { return squares == 0 ? 0 : std::sqrt(differences / squares); }
};

// Goes on with the rows of `spec`.
Status Compare(const WeightSpec& spec, const TensorMap& tensors, Comparison* comparison) {
  for (const SourcePiece& piece : spec.pieces) {
    SourceRows rows = RowsOf(spec, piece, tensors);
    const uint64_t count = std::exchange(rows.rows, 1), first = rows.first_row;
    std::vector<float> expected(rows.columns), got(rows.columns);
    for (uint64_t row = 0; row < count; ++row) {
      rows.first_row = first + row * rows.row_step;
      const TargetRows target{
          {reinterpret_cast<uint8_t*>(expected.data()), expected.size() * sizeof(float)}, {}, {}};
      TRY(ConvertRows(rows, DType::kF32, target, 1));
      comparison->stored.Next(got);
      for (size_t i = 0; i < got.size(); ++i) {
        const double difference = double{got[i]} - double{expected[i]};
        comparison->differences += difference * difference;
        comparison->squares += double{expected[i]} * double{expected[i]};
      }
    }
  }
  return OkStatus();
}

// Whether a weight of the package is made of `count` such matrices.
bool HasShape(const program::Weight& weight, const WeightSpec& spec, size_t count) {
  if (spec.role != WeightRole::kExpert) return weight.shape == spec.shape;
  return weight.shape == std::vector<uint64_t>{count, spec.shape[0], spec.shape[1]};
}

// The matrices of one layer.
Status CompareLayer(const package::Package& package, const std::vector<WeightSpec>& specs,
                    const TensorMap& tensors, const Matrices& matrices,
                    std::vector<WeightError>* errors) {
  std::map<std::string, size_t> experts;  // of a stacked matrix
  for (const WeightSpec& spec : specs)
    if (spec.role == WeightRole::kExpert) ++experts[StackedName(spec)];
  std::map<std::string, Comparison> stacked;
  for (const WeightSpec& spec : specs) {
    const bool is_expert = spec.role == WeightRole::kExpert;
    const std::string name = is_expert ? StackedName(spec) : spec.name;
    const auto found = matrices.find(name);
    if (found == matrices.end()) continue;
    const program::Weight& weight = found->second;
    if (!HasShape(weight, spec, is_expert ? experts[name] : 1))
      return Error(ErrorCode::kInvalidArgument,
                   "'" + name + "' has another shape in the package than in the checkpoint.");
    auto own = stacked.find(name);
    if (own == stacked.end()) {
      ASSIGN_OR_RETURN(StoredRows stored, StoredRows::Read(package, weight));
      own = stacked.emplace(name, Comparison{std::move(stored)}).first;
    }
    TRY(Compare(spec, tensors, &own->second));
    if (is_expert) continue;
    errors->push_back({name, weight.dtype, own->second.relative_rms()});
    stacked.erase(own);
  }
  for (const auto& [name, comparison] : stacked)
    errors->push_back({name, matrices.at(name).dtype, comparison.relative_rms()});
  return OkStatus();
}

}  // namespace

Result<std::vector<WeightError>> CompareWeights(const package::Package& package,
                                                const std::filesystem::path& checkpoint) {
  if (!package.manifest.lowered)
    return Error(ErrorCode::kUnsupported, "This package has no programs that name its matrices.");
  ASSIGN_OR_RETURN(Source source, OpenSource(checkpoint));
  ASSIGN_OR_RETURN(const ModelConfig config,
                   ParseModelConfig(source.files.at("config.json"), std::nullopt,
                                    package.manifest.embedding.has_value()));
  if (config.wrapped)
    return Error(ErrorCode::kUnsupported, "Checkpoints of models with towers are not compared.");
  RenameTensors(config.architecture, &source.tensors);
  const auto specs = SpecifyWeights(config, source.tensors);
  TRY(CheckWeights(specs, source.tensors));
  ASSIGN_OR_RETURN(const Matrices matrices, MatricesOf(package));
  std::vector<WeightError> errors;
  for (const auto& layer : specs) {
    const Status status = CompareLayer(package, layer, source.tensors, matrices, &errors);
    if (!status.ok()) return Error(status.error()).Context("Comparing " + checkpoint.string());
  }
  if (errors.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "The package has none of the matrices of " + checkpoint.string() + ".");
  return errors;
}

}  // namespace weft::convert
