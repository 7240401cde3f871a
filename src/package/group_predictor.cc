#include "package/group_predictor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"

namespace weft::package {
namespace {

constexpr uint32_t kMagic = 0x50474657;  // "WFGP"
constexpr size_t kHeaderBytes = 6 * sizeof(uint32_t);

size_t RowDataBytes(uint32_t columns) {
  return static_cast<size_t>(BlockCount(columns) * BlockDataBytes(DType::kQ4));
}
size_t RowBytes(uint32_t columns) {
  return RowDataBytes(columns) + static_cast<size_t>(BlockCount(columns)) * sizeof(uint16_t);
}

// Sixteen sums side by side, so that the compiler may use vectors without changing an order.
float Dot(const float* a, const float* b, size_t count) {
  std::array<float, 16> sums{};
  size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size())
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float each : sums) sum += each;
  return sum;
}

// max(0, matrix x + bias)
std::vector<float> Layer(const std::vector<float>& matrix, const std::vector<float>& bias,
                         std::span<const float> x) {
  std::vector<float> out(bias.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = std::max(0.0f, Dot(matrix.data() + i * x.size(), x.data(), x.size()) + bias[i]);
  return out;
}

class Writer {
 public:
  void Number(uint32_t value) { Append(AsBytes(std::span<const uint32_t>(&value, 1))); }
  void Values(const std::vector<float>& values) { Append(AsBytes(std::span(values))); }
  void Matrix(const std::vector<float>& matrix, uint32_t columns) {
    std::vector<uint8_t> data(RowDataBytes(columns));
    std::vector<uint16_t> scales(static_cast<size_t>(BlockCount(columns)));
    for (size_t row = 0; row < matrix.size() / columns; ++row) {
      QuantizeRow(DType::kQ4, std::span(matrix).subspan(row * columns, columns), data, scales);
      Append(data);
      Append(AsBytes(std::span<const uint16_t>(scales)));
    }
  }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  void Append(ByteSpan bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<uint8_t> bytes_;
};

// REQUIRES, of all: so many bytes are left.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : left_(bytes) {}
  std::vector<float> Values(uint32_t count) {
    std::vector<float> values(count);
    const ByteSpan bytes = Next(count * sizeof(float));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(values.data()));
    return values;
  }
  std::vector<float> Matrix(uint32_t rows, uint32_t columns) {
    std::vector<float> matrix(size_t{rows} * columns);
    std::vector<uint16_t> scales(static_cast<size_t>(BlockCount(columns)));
    for (size_t row = 0; row < rows; ++row) {
      const ByteSpan data = Next(RowDataBytes(columns));
      for (uint16_t& scale : scales) scale = LoadLe<uint16_t>(Next(sizeof(uint16_t)).data());
      DequantizeRow(DType::kQ4, data, scales, {},
                    std::span(matrix).subspan(row * columns, columns));
    }
    return matrix;
  }

 private:
  ByteSpan Next(size_t count) {
    CHECK(count <= left_.size());
    const ByteSpan next = left_.first(count);
    left_ = left_.subspan(count);
    return next;
  }
  ByteSpan left_;
};

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

Error BadPredictor(const std::string& what) {
  return Error(ErrorCode::kInvalidData, "The predictor of neuron groups " + what);
}

Status CheckSizes(const GroupPredictor& sizes, size_t byte_count) {
  const auto fits = [](uint32_t value, uint32_t most) { return value >= 1 && value <= most; };
  if (!fits(sizes.columns, kMaxPredictorColumns) || !fits(sizes.hidden, kMaxPredictorHidden) ||
      !fits(sizes.groups, kMaxPredictorGroups))
    return BadPredictor(
        "has " + std::to_string(sizes.columns) + " columns, " + std::to_string(sizes.hidden) +
        " hidden values and " + std::to_string(sizes.groups) + " groups, expected 1 to " +
        std::to_string(kMaxPredictorColumns) + ", " + std::to_string(kMaxPredictorHidden) +
        " and " + std::to_string(kMaxPredictorGroups) + ".");
  const size_t expected = kHeaderBytes + sizes.hidden * (RowBytes(sizes.columns) + sizeof(float)) +
                          sizes.groups * (RowBytes(sizes.hidden) + sizeof(float));
  if (byte_count == expected) return OkStatus();
  return BadPredictor("has " + std::to_string(byte_count) + " bytes, expected " +
                      std::to_string(expected) + ".");
}

}  // namespace

std::vector<float> GroupPredictor::Predict(std::span<const float> row) const {
  CHECK(row.size() == columns);
  return Layer(second, second_bias, Layer(first, first_bias, row));
}

std::vector<uint8_t> EncodePredictor(const GroupPredictor& predictor) {
  CHECK(predictor.first.size() == size_t{predictor.hidden} * predictor.columns);
  CHECK(predictor.second.size() == size_t{predictor.groups} * predictor.hidden);
  Writer writer;
  for (const uint32_t value : {kMagic, kPredictorVersion, predictor.columns, predictor.hidden,
                               predictor.groups, predictor.reads})
    writer.Number(value);
  writer.Matrix(predictor.first, predictor.columns);
  writer.Values(predictor.first_bias);
  writer.Matrix(predictor.second, predictor.hidden);
  writer.Values(predictor.second_bias);
  return writer.Take();
}

Result<GroupPredictor> DecodePredictor(ByteSpan blob) {
  if (blob.size() < kHeaderBytes) return BadPredictor("ends within its header.");
  const auto number = [blob](size_t i) { return LoadLe<uint32_t>(blob.data() + 4 * i); };
  if (number(0) != kMagic) return BadPredictor("does not begin as one.");
  if (number(1) != kPredictorVersion)
    return Error(ErrorCode::kUnsupported, "The predictor of neuron groups has version " +
                                              std::to_string(number(1)) + "; this weft reads " +
                                              std::to_string(kPredictorVersion) +
                                              ". Make it again with `weft profile`.");
  GroupPredictor out{number(2), number(3), number(4), number(5), {}, {}, {}, {}};
  TRY(CheckSizes(out, blob.size()));
  Reader reader(blob.subspan(kHeaderBytes));
  out.first = reader.Matrix(out.hidden, out.columns);
  out.first_bias = reader.Values(out.hidden);
  out.second = reader.Matrix(out.groups, out.hidden);
  out.second_bias = reader.Values(out.groups);
  for (const auto* values : {&out.first, &out.first_bias, &out.second, &out.second_bias})
    if (!AllFinite(*values)) return BadPredictor("has values that are not finite.");
  return out;
}

}  // namespace weft::package
