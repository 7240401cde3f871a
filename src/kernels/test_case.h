// For tests only: conformance cases (tests/conformance/README.md) and tensors made from seeds.
#pragma once

#include <boost/json.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "base/file.h"
#include "kernels/view.h"
#include "tensor/half.h"
#include "tensor/q4s.h"

namespace weft::kernels {

constexpr uint32_t CaseHash(uint32_t seed, uint32_t i) {
  uint32_t x = seed * 0x9e3779b1u + i;
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

constexpr float CaseFloat(uint32_t seed, uint32_t i, double amplitude = 1, double offset = 0) {
  return static_cast<float>(((CaseHash(seed, i) >> 8) / 8388608.0 - 1) * amplitude + offset);
}

inline std::vector<float> CaseFloats(uint32_t seed, size_t count, double amplitude = 1,
                                     double offset = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = CaseFloat(seed, static_cast<uint32_t>(i), amplitude, offset);
  }
  return values;
}

// A weight [experts * rows, columns] with its storage.
class CaseWeight {
 public:
  CaseWeight() = default;
  CaseWeight(DType dtype, size_t rows, size_t columns, uint32_t seed, bool with_zero = false,
             double amplitude = 1, double offset = 0) {
    matrix_.dtype = dtype;
    matrix_.rows = rows;
    matrix_.columns = columns;
    data_.resize(rows * matrix_.data_row_bytes());
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<uint8_t>(Hash(seed, i));
    if (IsBlockFormat(dtype)) {
      MakeBlocks(seed, with_zero);
    } else {
      MakePlain(seed, amplitude, offset);
    }
  }

  Matrix matrix() const {
    Matrix m = matrix_;
    m.data = data_.data();
    m.scale = scale_.empty() ? nullptr : scale_.data();
    m.zero = zero_.empty() ? nullptr : zero_.data();
    return m;
  }

 private:
  static uint32_t Hash(uint32_t seed, size_t i) { return CaseHash(seed, static_cast<uint32_t>(i)); }

  void MakePlain(uint32_t seed, double amplitude, double offset) {
    for (size_t i = 0; i < matrix_.rows * matrix_.columns; ++i) {
      const uint32_t h = Hash(seed, i);
      if (matrix_.dtype == DType::kF32) {
        StoreLe(&data_[4 * i], CaseFloat(seed, static_cast<uint32_t>(i), amplitude, offset));
      } else {
        const uint32_t magnitude = matrix_.dtype == DType::kF16 ? 0x2800 + (h >> 16) % 0x1000
                                                                : 0x3d00 + (h >> 16) % 0x0200;
        StoreLe(&data_[2 * i], static_cast<uint16_t>((h & 0x8000) | magnitude));
      }
    }
  }

  void MakeBlocks(uint32_t seed, bool with_zero) {
    if (matrix_.dtype == DType::kQ4S) return MakeSuperblocks(seed);
    if (IsKQuant(matrix_.dtype)) return MakeKQuants(seed);
    const bool q8 = matrix_.dtype == DType::kQ8;
    scale_.resize(matrix_.rows * matrix_.blocks());
    for (size_t i = 0; i < scale_.size(); ++i) {
      scale_[i] = static_cast<uint16_t>((q8 ? 0x1c00 : 0x2000) + Hash(seed + 1, i) % 0x0800);
    }
    if (with_zero) zero_.resize(matrix_.rows * matrix_.zero_row_bytes());
    for (size_t i = 0; i < zero_.size(); ++i) zero_[i] = static_cast<uint8_t>(Hash(seed + 2, i));
    const Matrix m = matrix();
    for (size_t r = 0; r < m.rows; ++r) {
      for (size_t k = m.columns; k < m.blocks() * 32; ++k) {
        const size_t b = k / 32;
        const int zero = with_zero ? (m.ZeroRow(r)[b / 2] >> (b % 2 * 4)) & 15 : 8;
        uint8_t& byte = data_[r * m.data_row_bytes() + (q8 ? k : k / 2)];
        if (q8) {
          byte = 128;
        } else {
          const int shift = k % 2 == 0 ? 0 : 4;
          byte = static_cast<uint8_t>((byte & (0xf0 >> shift)) | (zero << shift));
        }
      }
    }
  }

  // S of 2^-10 to 2^-9, both signs of multipliers, and every magnitude.
  void MakeSuperblocks(uint32_t seed) {
    scale_.resize(matrix_.rows * matrix_.scale_words());
    for (size_t b = 0; b * kSuperblockWords < scale_.size(); ++b) {
      const size_t superblocks = matrix_.scale_words() / kSuperblockWords;
      const size_t columns = matrix_.columns - b % superblocks * kSuperblockValues;
      Q4sRecord record{static_cast<uint16_t>(0x1400 + Hash(seed + 1, b) % 0x0400), {}};
      for (size_t i = 0; i < kMultipliers; ++i) {
        const auto hash = Hash(seed + 2, b * kMultipliers + i);
        const int m = i * kMultiplierValues < columns ? static_cast<int>(hash >> 8) % 15 + 1 : 1;
        record.multipliers[i] =
            static_cast<int8_t>(i * kMultiplierValues < columns && hash % 2 == 0 ? -m : m);
      }
      WriteQ4sRecord(record, &scale_[b * kSuperblockWords]);
    }
  }

  // d of 2^-13 to 2^-12, e of as much and both signs, and any s, m and upper bits.
  void MakeKQuants(uint32_t seed) {
    scale_.resize(matrix_.rows * matrix_.scale_words());
    for (size_t i = 0; i < scale_.size(); ++i) scale_[i] = static_cast<uint16_t>(Hash(seed + 1, i));
    for (size_t i = 0; i < scale_.size(); i += static_cast<size_t>(RecordWords(matrix_.dtype))) {
      scale_[i] = static_cast<uint16_t>(0x0800 + scale_[i] % 0x0400);
      if (matrix_.dtype == DType::kQ6K) continue;
      scale_[i + 1] =
          static_cast<uint16_t>(0x0800 + scale_[i + 1] % 0x0400 + scale_[i + 1] / 0x8000 * 0x8000);
    }
  }

  Matrix matrix_;
  std::vector<uint8_t> data_;
  std::vector<uint16_t> scale_;
  std::vector<uint8_t> zero_;
};

// One case as it stands in the file.
struct ConformanceCase {
  std::string name;
  std::string op;
  boost::json::object params;
  boost::json::object inputs;
  double tolerance = 0;
  std::vector<double> expected;

  bool Has(std::string_view input) const { return inputs.contains(input); }
  std::vector<size_t> Shape(std::string_view input) const {
    std::vector<size_t> shape;
    for (const auto& d : inputs.at(input).at("shape").as_array())
      shape.push_back(d.to_number<size_t>());
    return shape;
  }
  size_t Rows(std::string_view input) const { return Shape(input)[0]; }
  size_t Columns(std::string_view input) const { return Shape(input).back(); }

  // f32 inputs; empty when the case has none of this name.
  std::vector<float> Floats(std::string_view input) const {
    if (!Has(input)) return {};
    const auto& spec = inputs.at(input).as_object();
    size_t count = 1;
    for (const size_t d : Shape(input)) count *= d;
    const auto seed = spec.at("seed").to_number<uint32_t>();
    if (spec.at("kind").as_string() == "i32_as_f32") {
      std::vector<float> values;
      for (const int32_t id : Ints(input)) values.push_back(static_cast<float>(id));
      return values;
    }
    const auto number = [&](const char* key, double otherwise) {
      return spec.contains(key) ? spec.at(key).to_number<double>() : otherwise;
    };
    return CaseFloats(seed, count, number("amplitude", 1), number("offset", 0));
  }
  std::vector<int32_t> Ints(std::string_view input) const {
    const auto& spec = inputs.at(input).as_object();
    std::vector<int32_t> values(Shape(input).size() == 1 ? Rows(input)
                                                         : Rows(input) * Columns(input));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>(
          CaseHash(spec.at("seed").to_number<uint32_t>(), static_cast<uint32_t>(i)) %
          spec.at("bound").to_number<uint32_t>());
    }
    return values;
  }
  CaseWeight Weight(std::string_view input) const {
    const auto& spec = inputs.at(input).as_object();
    const std::vector<size_t> shape = Shape(input);
    const size_t rows = shape.size() == 3 ? shape[0] * shape[1] : shape[0];
    return CaseWeight(DTypeFromName(std::string_view(spec.at("kind").as_string())).value(), rows,
                      shape.back(), spec.at("seed").to_number<uint32_t>(), spec.contains("zero"));
  }
  double Number(std::string_view param) const { return params.at(param).to_number<double>(); }
  double NumberOr(std::string_view param, double otherwise) const {
    return params.contains(param) ? Number(param) : otherwise;
  }
  size_t Count(std::string_view param) const { return params.at(param).to_number<size_t>(); }
  bool Is(std::string_view param, std::string_view value) const {
    return params.at(param).as_string() == value;
  }
};

inline std::vector<ConformanceCase> ReadCases(const std::string& path) {
  std::vector<ConformanceCase> cases;
  const boost::json::value file = boost::json::parse(ReadTextFile(path).value());
  for (const auto& entry : file.as_array()) {
    ConformanceCase& c = cases.emplace_back();
    c.name = entry.at("name").as_string();
    c.op = entry.at("op").as_string();
    c.params = entry.at("params").as_object();
    c.inputs = entry.at("inputs").as_object();
    c.tolerance = entry.at("tolerance").to_number<double>();
    for (const auto& value : entry.at("expected").as_array()) {
      c.expected.push_back(value.to_number<double>());
    }
  }
  return cases;
}

}  // namespace weft::kernels
