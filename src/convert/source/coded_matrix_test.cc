#include "convert/source/coded_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft::convert {
namespace {

using ::testing::ElementsAre;

float ValueOf(Fp8Type type, uint8_t code) {
  Fp8Scales scales{.values = {1}, .block_rows = 1, .block_columns = 1};
  scales.matrix_rows = 1;
  float value = 0;
  MakeFp8Matrix(type, Slice(std::vector<uint8_t>{code}), 1, std::move(scales))
      ->Values(0, 0, {&value, 1});
  return value;
}

TEST(Fp8, CodesMeanWhatTheFormatsDefine) {
  const auto e4m3 = [](uint8_t code) { return ValueOf(Fp8Type::kE4M3, code); };
  EXPECT_EQ(e4m3(0x00), 0);
  EXPECT_EQ(e4m3(0x01), 0x1p-9f);      // the smallest
  EXPECT_EQ(e4m3(0x07), 7 * 0x1p-9f);  // the largest that is subnormal
  EXPECT_EQ(e4m3(0x08), 0x1p-6f);
  EXPECT_EQ(e4m3(0x38), 1);
  EXPECT_EQ(e4m3(0xbc), -1.5f);
  EXPECT_EQ(e4m3(0x7e), 448);  // the largest: there are no infinities
  EXPECT_TRUE(std::isnan(e4m3(0x7f)));
  EXPECT_TRUE(std::isnan(e4m3(0xff)));
  const auto e5m2 = [](uint8_t code) { return ValueOf(Fp8Type::kE5M2, code); };
  EXPECT_EQ(e5m2(0x01), 0x1p-16f);
  EXPECT_EQ(e5m2(0x3d), 1.25f);
  EXPECT_EQ(e5m2(0x7b), 57344);
  EXPECT_TRUE(std::isinf(e5m2(0x7c)));
}

TEST(Fp8, AValueIsItsCodeTimesTheScaleOfItsBlock) {
  // Three rows of four, in blocks of 2 x 3: codes 1 and 2.
  const Slice codes(std::vector<uint8_t>{0x38, 0x38, 0x40, 0x40,  //
                                         0x40, 0x38, 0x38, 0x38,  //
                                         0x38, 0x40, 0x38, 0x40});
  Fp8Scales scales{.values = {1, 10, 100, 1000}, .block_rows = 2, .block_columns = 3};
  scales.column_blocks = 2;
  scales.row_blocks = 2;
  scales.matrix_rows = 3;
  const auto matrix = MakeFp8Matrix(Fp8Type::kE4M3, codes, 4, std::move(scales));
  std::vector<float> row(4);
  matrix->Values(0, 0, row);
  EXPECT_THAT(row, ElementsAre(1, 1, 2, 20));
  matrix->Values(2, 0, row);
  EXPECT_THAT(row, ElementsAre(100, 200, 100, 2000));
  float value = 0;
  matrix->Values(2, 3, {&value, 1});
  EXPECT_EQ(value, 2000);
}

TEST(Fp8, EveryMatrixOfAStackHasScalesOfItsOwn) {
  const Slice codes(std::vector<uint8_t>{0x38, 0x38, 0x38, 0x38});  // [2, 2, 1]
  Fp8Scales scales{.values = {3, 5}, .block_rows = 2, .block_columns = 1};
  scales.matrix_rows = 2;
  const auto matrix = MakeFp8Matrix(Fp8Type::kE4M3, codes, 1, std::move(scales));
  std::vector<float> values;
  for (uint64_t row = 0; row < 4; ++row) {
    values.push_back(0);
    matrix->Values(row, 0, {&values.back(), 1});
  }
  EXPECT_THAT(values, ElementsAre(3, 3, 5, 5));
}

Slice Words(const std::vector<uint32_t>& words) {
  const ByteSpan bytes = AsBytes(std::span<const uint32_t>(words));
  return Slice(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

Slice Halves(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * 2);
  FromF32(values, DType::kF16, bytes.data());
  return Slice(std::move(bytes));
}

TEST(Groups, GptqPacksInputsAndAwqInterleavesOutputs) {
  GroupedCodes gptq{.rows = 8, .columns = 8, .groups = 1};
  gptq.codes = Words({0x76543210, 0, 0, 0, 0, 0, 0, 0xfedcba98});  // [1, 8]: a word an output
  gptq.zeros = Words({0x77777770});                                // 1 for output 0, then 8
  gptq.zero_offset = 1;
  gptq.scales = Halves({2, 1, 1, 1, 1, 1, 1, 0.5f});
  gptq.group_of.assign(8, 0);
  std::vector<float> row(8);
  const auto by_gptq = MakeGroupedMatrix(gptq);
  by_gptq->Values(0, 0, row);
  EXPECT_THAT(row, ElementsAre(-2, 0, 2, 4, 6, 8, 10, 12));
  by_gptq->Values(7, 0, row);
  EXPECT_THAT(row, ElementsAre(0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f));

  GroupedCodes awq = gptq;
  awq.order = WordOrder::kAwq;
  awq.zero_offset = 0;
  awq.zeros = Slice();
  awq.codes = Words({0x76543210, 0, 0, 0, 0, 0, 0, 0});  // [8, 1]: a word an input
  awq.scales = Halves({1, 1, 1, 1, 1, 1, 1, 1});
  const auto by_awq = MakeGroupedMatrix(awq);
  std::vector<float> column;  // outputs 0, 2, 4, 6, 1, 3, 5, 7 have the codes 0, 1, 2, ...
  for (uint64_t output = 0; output < 8; ++output) {
    column.push_back(0);
    by_awq->Values(output, 0, {&column.back(), 1});
  }
  EXPECT_THAT(column, ElementsAre(-8, -4, -7, -3, -6, -2, -5, -1));
}

GroupedCodes RandomCodes(uint64_t group_columns, uint32_t least_zero, uint32_t zeros) {
  SeededRandom random(11);
  GroupedCodes codes{.rows = 16, .columns = 128, .groups = 128 / group_columns};
  const auto words = [&](uint64_t count) {
    std::vector<uint32_t> made(count);
    for (uint32_t& word : made) {
      for (int i = 0; i < 8; ++i) word |= static_cast<uint32_t>(random.Below(16)) << (4 * i);
    }
    return made;
  };
  codes.codes = Words(words(16 * 16));
  std::vector<uint32_t> packed(codes.groups * 2);
  for (uint32_t& word : packed) {
    for (int i = 0; i < 8; ++i) {
      word |= (least_zero + static_cast<uint32_t>(random.Below(zeros)) - 1) << (4 * i);
    }
  }
  codes.zeros = Words(packed);
  codes.zero_offset = 1;
  std::vector<float> scales(codes.groups * 16);
  for (float& scale : scales) scale = static_cast<float>(random.Uniform() * 0.1);
  codes.scales = Halves(scales);
  for (uint32_t i = 0; i < 128; ++i) {
    codes.group_of.push_back(i / static_cast<uint32_t>(group_columns));
  }
  return codes;
}

void ExpectExact(const GroupedCodes& codes, DType to, bool with_zeros) {
  const auto matrix = MakeGroupedMatrix(codes);
  const auto blocks = static_cast<size_t>(BlockCount(128));
  std::vector<uint8_t> data(blocks * static_cast<size_t>(BlockDataBytes(to)));
  std::vector<uint8_t> zeros(with_zeros ? (blocks + 1) / 2 : 0);
  std::vector<uint16_t> scales(blocks);
  std::vector<float> values(128), stored(128);
  for (uint64_t row = 0; row < codes.rows; ++row) {
    matrix->Values(row, 0, values);
    matrix->Repack(row, to, data, scales, zeros);
    DequantizeRow(to, data, scales, zeros, stored);
    EXPECT_EQ(stored, values) << "row " << row;
  }
}

TEST(Groups, BlocksOfFourBitsHoldThemWithoutAChange) {
  const GroupedCodes codes = RandomCodes(64, 1, 15);
  const GroupedTraits traits = TraitsOf(codes);
  EXPECT_TRUE(traits.whole_blocks && traits.has_zeros && traits.zeros_fit);
  ExpectExact(codes, DType::kQ4, true);
  ExpectExact(codes, DType::kQ8, false);
}

TEST(Groups, WithoutZeroPointsBlocksNeedNone) {
  const GroupedCodes codes = RandomCodes(128, 8, 1);
  EXPECT_FALSE(TraitsOf(codes).has_zeros);
  ExpectExact(codes, DType::kQ4, false);
}

TEST(Groups, AZeroPointOf16NeedsEightBits) {
  const GroupedCodes codes = RandomCodes(32, 16, 1);
  EXPECT_FALSE(TraitsOf(codes).zeros_fit);
  ExpectExact(codes, DType::kQ8, false);
}

TEST(Groups, ColumnsOfTwoGroupsInABlockAreSeen) {
  GroupedCodes codes = RandomCodes(32, 8, 1);
  std::swap(codes.group_of[0], codes.group_of[127]);
  EXPECT_FALSE(TraitsOf(codes).whole_blocks);
  EXPECT_FALSE(TraitsOf(RandomCodes(16, 8, 1)).whole_blocks);
}

}  // namespace
}  // namespace weft::convert
