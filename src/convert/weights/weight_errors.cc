#include "convert/weights/weight_errors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "convert/model/parse_config.h"
#include "convert/source/open_source.h"
#include "convert/source/tensor_names.h"
#include "convert/weights/source_rows.h"
#include "convert/weights/weight_specs.h"
#include "program/codec.h"
#include "tensor/blocks.h"

namespace weft::convert {
namespace {

using Matrices = std::map<std::string, program::Weight>;

Result<Matrices> MatricesOf(const package::Package& package) {
  Matrices matrices;
  for (const package::LayerInfo& layer : package.manifest.layers) {
    ASSIGN_OR_RETURN(const Slice bytes,
                     package.blobs->Get(layer.program, package.manifest.blobs.at(layer.program)));
    ASSIGN_OR_RETURN(const program::Program program, program::Decode(bytes.bytes()));
    for (const program::Weight& weight : program.weights)
      if (weight.shape.size() == 2) matrices.emplace(weight.name, weight);
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

// The rows of a stored matrix, one after the other.
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
    const uint64_t columns = weight_.shape[1], row = row_++;
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

Result<double> RelativeError(const WeightSpec& spec, const TensorMap& tensors, StoredRows stored) {
  double differences = 0, squares = 0;
  for (const SourcePiece& piece : spec.pieces) {
    SourceRows rows = RowsOf(spec, piece, tensors);
    const uint64_t count = std::exchange(rows.rows, 1), first = rows.first_row;
    std::vector<float> expected(rows.columns), got(rows.columns);
    for (uint64_t row = 0; row < count; ++row) {
      rows.first_row = first + row * rows.row_step;
      const TargetRows target{
          {reinterpret_cast<uint8_t*>(expected.data()), expected.size() * sizeof(float)}, {}, {}};
      TRY(ConvertRows(rows, DType::kF32, target, 1));
      stored.Next(got);
      for (size_t i = 0; i < got.size(); ++i) {
        const double difference = double{got[i]} - double{expected[i]};
        differences += difference * difference;
        squares += double{expected[i]} * double{expected[i]};
      }
    }
  }
  return squares == 0 ? 0 : std::sqrt(differences / squares);
}

}  // namespace

Result<WeightErrors> CompareWeights(const package::Package& package,
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
  WeightErrors errors;
  std::vector<WeightSpec> all;
  for (const auto& layer : specs) all.insert(all.end(), layer.begin(), layer.end());
  for (const WeightSpec& spec : all) {
    if (spec.role == WeightRole::kExpert) ++errors.left_out;
    const auto found = matrices.find(spec.name);
    if (spec.role == WeightRole::kExpert || found == matrices.end()) continue;
    if (found->second.shape != spec.shape)
      return Error(ErrorCode::kInvalidArgument, "'" + spec.name +
                                                    "' has another shape in the package than in " +
                                                    checkpoint.string() + ".");
    ASSIGN_OR_RETURN(StoredRows stored, StoredRows::Read(package, found->second));
    ASSIGN_OR_RETURN(const double error, RelativeError(spec, source.tensors, std::move(stored)));
    errors.matrices.push_back({spec.name, found->second.dtype, error});
  }
  if (errors.matrices.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "The package has none of the matrices of " + checkpoint.string() + ".");
  return errors;
}

}  // namespace weft::convert
