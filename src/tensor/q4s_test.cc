// Superblocks: bytes of rows, records and what is refused of them, and the error of the search
// against the search over blocks of 32.
#include "tensor/q4s.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft {
namespace {

using testing::HasSubstr;

struct Quantised {
  std::vector<uint8_t> data;
  std::vector<uint16_t> words;
  std::vector<float> back;
};

Quantised Quantise(DType format, const std::vector<float>& row) {
  const auto columns = static_cast<int64_t>(row.size());
  Quantised q{
      std::vector<uint8_t>(static_cast<size_t>(BlockCount(columns) * BlockDataBytes(format))),
      std::vector<uint16_t>(static_cast<size_t>(ScaleWords(format, columns))),
      std::vector<float>(row.size())};
  QuantizeRow(format, row, q.data, q.words);
  DequantizeRow(format, q.data, q.words, {}, q.back);
  return q;
}

double SquaredError(const std::vector<float>& row, const std::vector<float>& back) {
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i)
    sum += std::pow(static_cast<double>(row[i]) - static_cast<double>(back[i]), 2);
  return sum;
}

std::vector<float> Normal(SeededRandom* random, size_t count) {
  std::vector<float> values(count);
  for (float& x : values) {  // Box-Muller
    const double radius = std::sqrt(-2 * std::log(1 - random->Uniform()));
    x = static_cast<float>(radius * std::cos(2 * M_PI * random->Uniform()));
  }
  return values;
}

TEST(Q4s, BytesOfARowAreThoseOfItsBlocksAndTwelveASuperblock) {
  EXPECT_EQ(ScaleWords(DType::kQ4S, 256) * 2, 12);
  EXPECT_EQ(ScaleWords(DType::kQ4S, 257) * 2, 24);
  EXPECT_EQ(ScaleWords(DType::kQ4S, 40) * 2, 12);
  EXPECT_EQ(BlockCount(40) * BlockDataBytes(DType::kQ4S), 32);
  EXPECT_EQ(static_cast<int>(DType::kQ4S), 18);
  EXPECT_EQ(DTypeFromName("q4s"), DType::kQ4S);
}

TEST(Q4s, ARecordReadsAsItWasWritten) {
  Q4sRecord record{0x3555, {1, -1, 15, -15, 7, 8, -9, 2, 3, -4, 5, -6, 10, 11, -12, 13}};
  uint16_t words[kSuperblockWords];
  WriteQ4sRecord(record, words);
  EXPECT_EQ(words[0], 0x3555);
  EXPECT_EQ(words[1], 0x4a4a);
  EXPECT_EQ(words[2], 0xff11);
  const Q4sRecord back = ReadQ4sRecord(words);
  EXPECT_EQ(back.scale, record.scale);
  EXPECT_EQ(back.multipliers, record.multipliers);
}

// A value by hand: S = 0.5, multiplier -3 of columns 16 to 31, level 11 at column 17.
TEST(Q4s, AValueIsScaleTimesMultiplierTimesLevel) {
  std::vector<uint8_t> data(16, 0x88);
  data[8] = 0xb8;
  const std::vector<uint16_t> words = {0x3800, 2, 0x1131, 0x1111, 0x1111, 0x1111};
  std::vector<float> values(32);
  DequantizeRow(DType::kQ4S, data, words, {}, values);
  EXPECT_EQ(values[16], 0);
  EXPECT_EQ(values[17], 0.5f * -3 * (11 - 8));
}

std::string Refusal(size_t word, uint16_t value, int64_t columns) {
  std::vector<uint16_t> words;
  for (int64_t b = 0; b < SuperblockCount(columns); ++b)
    words.insert(words.end(), {0x3800, 0, 0x1111, 0x1111, 0x1111, 0x1111});
  EXPECT_TRUE(CheckQ4sRow(words, columns).ok());
  words[word] = value;
  const Status status = CheckQ4sRow(words, columns);
  return status.ok() ? "" : status.error().ToString();
}

TEST(Q4s, RefusesScalesThatAreNotFiniteAndMultipliersOfZero) {
  EXPECT_THAT(Refusal(0, 0x7c00, 256), HasSubstr("Superblock 0 of a q4s row has a scale"));
  EXPECT_THAT(Refusal(6, 0xfe01, 300), HasSubstr("Superblock 1 of a q4s row has a scale"));
  EXPECT_THAT(Refusal(3, 0x1101, 256), HasSubstr("has 0 as multiplier 5"));
  EXPECT_EQ(Refusal(3, 0xf1ff, 256), "");
}

// 300 columns: the second superblock has 44, which are three multipliers.
TEST(Q4s, RefusesMultipliersOfColumnsThatThereAreNot) {
  EXPECT_THAT(Refusal(8, 0x2111, 300), HasSubstr("has 2 as multiplier 3 of columns"));
  EXPECT_THAT(Refusal(7, 0x8000, 300), HasSubstr("has -1 as multiplier 15 of columns"));
  EXPECT_EQ(Refusal(8, 0x1211, 300), "");
  EXPECT_EQ(Refusal(7, 4, 300), "");
}

TEST(Q4s, WhatTheSearchWritesIsNeverRefused) {
  SeededRandom random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<float> row = Normal(&random, 1 + random.Below(600));
    const double magnitude = std::ldexp(1.0, static_cast<int>(random.Below(48)) - 30);
    for (float& x : row) x = static_cast<float>(x * magnitude);
    const Quantised q = Quantise(DType::kQ4S, row);
    const Status status = CheckQ4sRow(q.words, static_cast<int64_t>(row.size()));
    ASSERT_TRUE(status.ok()) << status.error().ToString();
  }
}

// tools' figures: 7.23% for normal values, 8.09% for blocks of 32 (docs/quantisation.md).
TEST(Q4s, ErrorOfNormalValuesIsThatOfAnExhaustiveSearch) {
  SeededRandom random(9);
  const std::vector<float> row = Normal(&random, 1 << 18);
  const double norm = SquaredError(row, std::vector<float>(row.size()));
  const auto percent = [&](DType format) {
    return 100 * std::sqrt(SquaredError(row, Quantise(format, row).back) / norm);
  };
  EXPECT_LT(percent(DType::kQ4S), 7.25);
  EXPECT_GT(percent(DType::kQ4), 8.0);
}

// A superblock of values that differ by 100 times between multipliers.
TEST(Q4s, SmallValuesBesideLargeOnesAreKept) {
  SeededRandom random(3);
  std::vector<float> row = Normal(&random, 256);
  for (size_t i = 0; i < 16; ++i) row[i] *= 8;
  const Quantised q = Quantise(DType::kQ4S, row);
  for (size_t i = 16; i < 256; ++i) EXPECT_NEAR(q.back[i], row[i], 0.5) << i;
}

// What the converter lets through: 60 times the largest f16.
TEST(Q4s, TheLargestValuesHaveAFiniteScale) {
  SeededRandom random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> row = Normal(&random, 256);
    float most = 0;
    for (const float x : row) most = std::max(most, std::fabs(x));
    for (float& x : row) x *= 65504.0f * 59.99f / most;
    const Status status = CheckQ4sRow(Quantise(DType::kQ4S, row).words, 256);
    ASSERT_TRUE(status.ok()) << status.error().ToString();
  }
}

TEST(Q4s, ValuesTooSmallForAScaleAreZero) {
  const Quantised q = Quantise(DType::kQ4S, std::vector<float>(40, 1e-30f));
  EXPECT_EQ(q.words[0], 0);
  for (const float x : q.back) EXPECT_EQ(x, 0);
}

}  // namespace
}  // namespace weft
