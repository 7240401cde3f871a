#include "convert/source/coded_matrix.h"

#include <array>
#include <bit>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft::convert {
namespace {

// E4M3: sign, 4 bits of exponent (bias 7), 3 of mantissa. The bits of the mantissa become those of
// an f32, and 2^(127 - 7) makes up for the bias: this holds for subnormal codes, too. There are no
// infinities, and one magnitude is not a number.
float E4m3ToF32(uint8_t code) {
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = std::bit_cast<float>(uint32_t{code & 0x7fu} << 20) * 0x1p120f;
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::array<float, 256> TableOf(Fp8Type type) {
  std::array<float, 256> table{};
  for (size_t code = 0; code < table.size(); ++code) {
    // E5M2 is the upper byte of an f16.
    table[code] = type == Fp8Type::kE4M3 ? E4m3ToF32(static_cast<uint8_t>(code))
                                         : F16ToF32(static_cast<uint16_t>(code << 8));
  }
  return table;
}

const std::array<float, 256>& Fp8Table(Fp8Type type) {
  static const std::array<float, 256> kE4m3 = TableOf(Fp8Type::kE4M3);
  static const std::array<float, 256> kE5m2 = TableOf(Fp8Type::kE5M2);
  return type == Fp8Type::kE4M3 ? kE4m3 : kE5m2;
}

class Fp8Matrix final : public CodedMatrix {
 public:
  Fp8Matrix(Fp8Type type, Slice codes, uint64_t columns, Fp8Scales scales)
      : table_(Fp8Table(type)),
        codes_(std::move(codes)),
        columns_(columns),
        scales_(std::move(scales)) {}

  void Values(uint64_t row, uint64_t first_column, std::span<float> values) const override {
    const uint8_t* code = codes_.bytes().data() + row * columns_ + first_column;
    const uint64_t matrix = row / scales_.matrix_rows, within = row % scales_.matrix_rows;
    const float* scales =
        scales_.values.data() +
        (matrix * scales_.row_blocks + within / scales_.block_rows) * scales_.column_blocks;
    for (uint64_t i = 0; i < values.size(); ++i) {
      values[i] = table_[code[i]] * scales[(first_column + i) / scales_.block_columns];
    }
  }

 private:
  const std::array<float, 256>& table_;
  Slice codes_;
  uint64_t columns_;
  Fp8Scales scales_;
};

// Place in a word of row r of every eight, in AWQ's order.
constexpr std::array<uint32_t, 8> kAwqPlace = {0, 4, 1, 5, 2, 6, 3, 7};

class GroupedMatrix final : public CodedMatrix {
 public:
  explicit GroupedMatrix(GroupedCodes codes)
      : in_(std::move(codes)), per_word_(32 / in_.bits), mask_((uint32_t{1} << in_.bits) - 1) {}

  void Values(uint64_t row, uint64_t first_column, std::span<float> values) const override {
    uint32_t group = UINT32_MAX;
    float scale = 0;
    uint32_t zero = 0;
    for (uint64_t i = 0; i < values.size(); ++i) {
      const uint64_t column = first_column + i;
      if (in_.group_of[column] != group) {
        group = in_.group_of[column];
        scale = ScaleOf(group, row);
        zero = ZeroOf(group, row);
      }
      values[i] = (static_cast<float>(CodeAt(row, column)) - static_cast<float>(zero)) * scale;
    }
  }

  // In q8 a value is q - zero + 128, which fits a byte as long as |q - zero| <= 128.
  void Repack(uint64_t row, DType to, MutableByteSpan data, std::span<uint16_t> scales,
              MutableByteSpan zeros) const override {
    for (uint64_t block = 0; block < scales.size(); ++block) {
      const uint64_t first = block * kBlock;
      const uint32_t group = in_.group_of[first];
      const uint32_t zero = ZeroOf(group, row);
      scales[block] = LoadLe<uint16_t>(in_.scales.bytes().data() + (group * in_.rows + row) * 2);
      for (uint64_t i = 0; i < kBlock; i += 2) {
        const uint32_t low = CodeAt(row, first + i), high = CodeAt(row, first + i + 1);
        if (to == DType::kQ4) {
          data[(first + i) / 2] = static_cast<uint8_t>(low | high << 4);
        } else {
          data[first + i] = static_cast<uint8_t>(low + 128 - zero);
          data[first + i + 1] = static_cast<uint8_t>(high + 128 - zero);
        }
      }
      if (zeros.empty()) continue;
      uint8_t& pair = zeros[block / 2];
      pair = block % 2 == 0 ? static_cast<uint8_t>(zero) : static_cast<uint8_t>(pair | zero << 4);
    }
  }

  uint32_t ZeroOf(uint64_t group, uint64_t row) const {
    if (in_.zeros.byte_count() == 0) return uint32_t{1} << (in_.bits - 1);
    const uint64_t words = in_.rows / per_word_;
    return Field(in_.zeros, group * words + row / per_word_, PlaceOf(row)) + in_.zero_offset;
  }

 private:
  static constexpr uint64_t kBlock = static_cast<uint64_t>(kBlockValues);

  uint64_t PlaceOf(uint64_t row) const {
    const uint64_t within = row % per_word_;
    return in_.order == WordOrder::kAwq ? kAwqPlace[within] : within;
  }

  uint32_t Field(const Slice& words, uint64_t word, uint64_t place) const {
    return LoadLe<uint32_t>(words.bytes().data() + word * 4) >> (place * in_.bits) & mask_;
  }

  uint32_t CodeAt(uint64_t row, uint64_t column) const {
    if (in_.order == WordOrder::kGptq) {
      return Field(in_.codes, column / per_word_ * in_.rows + row, column % per_word_);
    }
    return Field(in_.codes, column * (in_.rows / per_word_) + row / per_word_, PlaceOf(row));
  }

  float ScaleOf(uint64_t group, uint64_t row) const {
    const auto bytes = static_cast<uint64_t>(ElementBytes(in_.scale_dtype));
    float scale = 0;
    ToF32(in_.scale_dtype, in_.scales.bytes().data() + (group * in_.rows + row) * bytes,
          {&scale, 1});
    return scale;
  }

  GroupedCodes in_;
  uint64_t per_word_;
  uint32_t mask_;
};

}  // namespace

void CodedMatrix::Repack(uint64_t, DType, MutableByteSpan, std::span<uint16_t>,
                         MutableByteSpan) const {
  CHECK(false, "no format of whole numbers");
}

std::unique_ptr<CodedMatrix> MakeFp8Matrix(Fp8Type type, Slice codes, uint64_t columns,
                                           Fp8Scales scales) {
  return std::make_unique<Fp8Matrix>(type, std::move(codes), columns, std::move(scales));
}

GroupedTraits TraitsOf(const GroupedCodes& codes) {
  const GroupedMatrix matrix(codes);
  GroupedTraits traits{
      .whole_blocks = codes.columns % kBlockValues == 0 && codes.scale_dtype == DType::kF16,
      .has_zeros = false,
      .zeros_fit = true};
  for (uint64_t column = 0; column < codes.columns; ++column) {
    const uint64_t block = column / kBlockValues * kBlockValues;
    if (codes.group_of[column] != codes.group_of[block]) traits.whole_blocks = false;
  }
  const uint32_t middle = uint32_t{1} << (codes.bits - 1);
  for (uint64_t group = 0; codes.zeros.byte_count() > 0 && group < codes.groups; ++group) {
    for (uint64_t row = 0; row < codes.rows; ++row) {
      const uint32_t zero = matrix.ZeroOf(group, row);
      traits.has_zeros |= zero != middle;
      traits.zeros_fit &= zero <= 15;
    }
  }
  return traits;
}

std::unique_ptr<CodedMatrix> MakeGroupedMatrix(GroupedCodes codes) {
  return std::make_unique<GroupedMatrix>(std::move(codes));
}

}  // namespace weft::convert
