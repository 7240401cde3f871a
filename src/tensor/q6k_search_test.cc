// The search for superblocks of q6k: its error, what it makes of the smallest and largest values,
// and bits that every processor must find.
#include "tensor/q6k_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/kquants.h"
#include "tensor/seeded_values_testing.h"

namespace weft {
namespace {

constexpr size_t kQ6kColumns = kSuperblockValues;

struct Q6kRow {
  std::vector<uint8_t> data;
  std::vector<uint16_t> words;
  std::vector<float> back;
};

Q6kRow QuantiseQ6k(const std::vector<float>& row) {
  Q6kRow q{std::vector<uint8_t>(row.size() / 2),
           std::vector<uint16_t>(row.size() / kQ6kColumns * RecordWords(DType::kQ6K)),
           std::vector<float>(row.size())};
  QuantizeRow(DType::kQ6K, row, q.data, q.words);
  EXPECT_TRUE(CheckKQuantRow(DType::kQ6K, q.words).ok());
  DequantizeRow(DType::kQ6K, q.data, q.words, {}, q.back);
  return q;
}

std::vector<float> NormalRow(uint64_t seed, size_t count) {
  SeededRandom random(seed);
  std::vector<float> values(count);
  for (float& x : values) {  // Box-Muller
    const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
    x = static_cast<float>(radius * std::cos(2 * M_PI * random.Uniform()));
  }
  return values;
}

// The root mean square of the differences as a share of that of the values.
double RelativeError(const std::vector<float>& row, const std::vector<float>& back) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    error += std::pow(static_cast<double>(row[i]) - static_cast<double>(back[i]), 2);
    norm += std::pow(static_cast<double>(row[i]), 2);
  }
  return std::sqrt(error / norm);
}

TEST(Q6kSearch, ErrorOfNormalValuesIsBelowThatOfTheGreatestAtLevel32) {
  const std::vector<float> row = NormalRow(9, 1 << 18);
  const double found = RelativeError(row, QuantiseQ6k(row).back);
  EXPECT_LT(found, 0.0168);
  std::vector<float> plain(row.size());
  for (size_t g = 0; g < row.size(); g += 16) {
    float extreme = 0;
    for (size_t i = g; i < g + 16; ++i)
      extreme = std::fabs(row[i]) > std::fabs(extreme) ? row[i] : extreme;
    for (size_t i = g; i < g + 16; ++i)
      plain[i] = std::min(std::rint(row[i] / (extreme / -32)), 31.0f) * (extreme / -32);
  }
  EXPECT_LT(found, 0.92 * RelativeError(row, plain));
}

TEST(Q6kSearch, ARowOfZerosIsZeros) {
  const Q6kRow q = QuantiseQ6k(std::vector<float>(2 * kQ6kColumns));
  for (const float x : q.back) EXPECT_EQ(x, 0);
  EXPECT_EQ(q.words[0], 0);
}

// The smallest step is 2^-24, with multiplier 1.
TEST(Q6kSearch, ValuesBelowHalfTheSmallestStepAreZero) {
  std::vector<float> row(kQ6kColumns, 0x1p-26f);
  row[7] = -0x1p-25f;
  for (const float x : QuantiseQ6k(row).back) EXPECT_EQ(x, 0);
}

TEST(Q6kSearch, ValuesOfAFewSmallestStepsAreWithinHalfAStep) {
  for (const float largest : {0x1p-24f, 0x1p-20f, 0x1.7p-19f}) {
    std::vector<float> row = SeededValues(3, kQ6kColumns, -1, 1);
    for (float& x : row) x *= largest;
    const Q6kRow q = QuantiseQ6k(row);
    for (size_t i = 0; i < row.size(); ++i) {
      const float most = std::max(0x1p-25f, largest / 40);
      EXPECT_NEAR(q.back[i], row[i], most) << largest << " " << i;
    }
  }
}

// Between 2^-25 and some steps of it d cannot be near what it should be. Every value is within the
// levels all the same.
TEST(Q6kSearch, ScalesThatF16RoundsByMuchDoNotClipValues) {
  for (int i = 0; i < 64; ++i) {
    std::vector<float> row = NormalRow(static_cast<uint64_t>(i), kQ6kColumns);
    const float factor = std::ldexp(1.0f, -19) * std::pow(1.2f, static_cast<float>(i));
    for (float& x : row) x *= factor;
    EXPECT_LT(RelativeError(row, QuantiseQ6k(row).back), 0.05) << factor;
  }
}

// What the converter lets through: 127 * 28 times the largest f16.
TEST(Q6kSearch, TheLargestValuesAreKept) {
  std::vector<float> row = NormalRow(4, kQ6kColumns);
  float most = 0;
  for (const float x : row) most = std::max(most, std::fabs(x));
  for (float& x : row) x *= 65504.0f * (127 * 28) / most;
  EXPECT_LT(RelativeError(row, QuantiseQ6k(row).back), 0.02);
}

TEST(Q6kSearch, SmallGroupsBesideALargeOneAreKept) {
  std::vector<float> row = NormalRow(5, kQ6kColumns);
  for (size_t i = 16; i < 32; ++i) row[i] *= 100;
  const Q6kRow q = QuantiseQ6k(row);
  for (size_t i = 32; i < row.size(); ++i) EXPECT_NEAR(q.back[i], row[i], 0.06) << i;
}

// Sums over all bytes, which do not depend on the processor.
TEST(Q6kSearch, EveryProcessorFindsTheseBits) {
  std::vector<float> row = SeededValues(11, 16 * kQ6kColumns, -1, 1);
  for (size_t i = 0; i < row.size(); ++i)
    row[i] *= std::abs(row[i]) * static_cast<float>(1 + i % 7);
  const Q6kRow q = QuantiseQ6k(row);
  uint32_t sum = 0;
  for (const uint8_t byte : q.data) sum = sum * 31 + byte;
  for (const uint16_t word : q.words) sum = sum * 31 + word;
  EXPECT_EQ(sum, 675719074u);
}

}  // namespace
}  // namespace weft
