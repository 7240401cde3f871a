// Oracle for halves: the compiler's own _Float16 conversions, on every bit pattern and on rounding
// cases.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft {
namespace {

#ifdef __FLT16_MANT_DIG__  // GCC's type; clang 14, which only looks for mistakes here, has none.

TEST(Half, WidensEveryPatternAsTheCompilerDoes) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float expected = static_cast<float>(std::bit_cast<_Float16>(half));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(F16ToF32(half)));
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(F16ToF32(half)), std::bit_cast<uint32_t>(expected)) << bits;
    }
  }
}

TEST(Half, NarrowsAsTheCompilerDoes) {
  SeededRandom random(7);
  for (int i = 0; i < 2000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random.Next()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(F32ToF16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
  for (const float value :
       {65519.9f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, -0.0f, 0x1.ffcp-15f}) {
    EXPECT_EQ(F32ToF16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}

#endif

TEST(Half, BF16RoundsToNearestEven) {
  EXPECT_EQ(F32ToBF16(1.0f), 0x3f80);
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even stays
  EXPECT_EQ(F32ToBF16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, odd goes up
  EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(NAN))));
}

class BlockFormats : public testing::TestWithParam<DType> {};

TEST_P(BlockFormats, ErrorStaysWithinHalfAStep) {
  const DType format = GetParam();
  if (format == DType::kQ4S) return;  // q4s_test.cc measures it
  SeededRandom random(3);
  for (const size_t columns : {1u, 31u, 32u, 33u, 172u, 256u}) {
    std::vector<float> row(columns);
    for (float& x : row) x = static_cast<float>(random.Uniform() * 2 - 1);
    const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(columns)));
    std::vector<uint8_t> data(blocks * static_cast<size_t>(BlockDataBytes(format)));
    std::vector<uint16_t> scales(blocks);
    QuantizeRow(format, row, data, scales);
    std::vector<float> back(columns);
    DequantizeRow(format, data, scales, {}, back);
    for (size_t i = 0; i < columns; ++i) {
      const float step = std::fabs(F16ToF32(scales[i / 32]));
      // q4 clips the side away from its extreme, by at most one and a half steps.
      EXPECT_LE(std::fabs(back[i] - row[i]), step * (format == DType::kQ8 ? 0.52f : 1.6f)) << i;
    }
  }
}

// Rows of ordinary values, of ties, of zeros, of tiny and of huge ones.
std::vector<float> HardRow(SeededRandom* random, size_t columns) {
  std::vector<float> row(columns);
  const uint64_t kind = random->Below(6);
  const double magnitude = std::ldexp(1.0, static_cast<int>(random->Below(40)) - 25);
  for (float& x : row) {
    const double uniform = random->Uniform() * 2 - 1;
    double value = uniform * magnitude;
    if (kind == 1) value = std::round(uniform * 3) / 2;        // ties, signs both ways
    if (kind == 2) value = random->Below(4) == 0 ? value : 0;  // sparse
    if (kind == 3) value = std::ldexp(uniform, -24);           // scales below f16's least
    if (kind == 4) value = uniform * uniform * uniform * uniform * 60000;  // an outlier or two
    if (kind == 5) value = random->Below(2) == 0 ? -0.0 : 0.0;
    x = static_cast<float>(value);
  }
  return row;
}

size_t Words(DType format, size_t columns) {
  return static_cast<size_t>(ScaleWords(format, static_cast<int64_t>(columns)));
}

// On one instruction set.
void CompareWithTheReference(DType format, int rounds) {
  SeededRandom random(11);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<float> row = HardRow(&random, 1 + random.Below(600));
    const auto blocks = static_cast<size_t>(BlockCount(static_cast<int64_t>(row.size())));
    const size_t bytes = blocks * static_cast<size_t>(BlockDataBytes(format));
    std::vector<uint8_t> data(bytes, 1), expected_data(bytes, 2);
    const size_t words = Words(format, row.size());
    std::vector<uint16_t> scales(words, 1), expected_scales(words, 2);
    QuantizeRow(format, row, data, scales);
    QuantizeRowReference(format, row, expected_data, expected_scales);
    ASSERT_EQ(scales, expected_scales) << round;
    ASSERT_EQ(data, expected_data) << round;
  }
}

TEST_P(BlockFormats, VectorsGiveTheBitsOfTheReference) {
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    CompareWithTheReference(GetParam(), 1500);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST_P(BlockFormats, ZerosStayZero) {
  std::vector<float> row(64, 0.0f);
  std::vector<uint8_t> data(2 * static_cast<size_t>(BlockDataBytes(GetParam())));
  std::vector<uint16_t> scales(Words(GetParam(), 64));
  QuantizeRow(GetParam(), row, data, scales);
  std::vector<float> back(64, 1.0f);
  DequantizeRow(GetParam(), data, scales, {}, back);
  for (const float x : back) EXPECT_EQ(x, 0.0f);
}

INSTANTIATE_TEST_SUITE_P(All, BlockFormats, testing::Values(DType::kQ8, DType::kQ4, DType::kQ4S),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

}  // namespace
}  // namespace weft
