#include "tensor/integer_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/bytes.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::vector<uint8_t> Stored(const std::vector<float>& row) {
  std::vector<uint8_t> bytes(IntegerRowBytes(row.size()));
  StoreIntegerRow(row, bytes.data());
  return bytes;
}

TEST(IntegerRow, IsAnExponentAndWholeNumbers) {
  EXPECT_EQ(IntegerRowBytes(1), 3u);
  EXPECT_EQ(IntegerRowBytes(256), 513u);
  EXPECT_EQ(IntegerRowBytes(300), 602u);
  // 16320 = 0x3fc0, -8160 = 0xe020 as 16 bits.
  EXPECT_EQ(Stored({1, -0.5}), (std::vector<uint8_t>{127, 0xc0, 0x3f, 0x20, 0xe0}));
  EXPECT_EQ(Stored({0, 0}), (std::vector<uint8_t>{40, 0, 0, 0, 0}));
}

TEST(IntegerRow, IsReadNearItsValues) {
  std::vector<float> row(300);
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = (i < 256 ? 1e-3f : 40.f) * static_cast<float>(static_cast<int>(i * 7919 % 513) - 256);
  std::vector<float> read(row.size());
  ReadIntegerRow(Stored(row).data(), read);
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_NEAR(read[i], row[i], (i < 256 ? 0.256f : 10240.f) / 16000) << i;
}

TEST(IntegerRow, OnlyFiniteSuperblocksHaveAnExponent) {
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(ExponentOf(std::vector<float>{0, 1.5, -2}), 128u);
  EXPECT_EQ(ExponentOf(std::vector<float>{most, -most}), kMostRowExponent);
  EXPECT_EQ(ExponentOf(std::vector<float>{1e-40f}), kLeastRowExponent);
  EXPECT_FALSE(ExponentOf(std::vector<float>{1, std::numeric_limits<float>::infinity()}));
  EXPECT_FALSE(ExponentOf(std::vector<float>{std::numeric_limits<float>::quiet_NaN(), 1}));
}

TEST(IntegerRow, WhatNobodyCouldHaveWrittenIsNamed) {
  std::vector<uint8_t> bytes = Stored(std::vector<float>(257, 1.f));
  ASSERT_TRUE(CheckIntegerRow(bytes.data(), 257).ok());
  bytes[1] = 255;
  EXPECT_THAT(CheckIntegerRow(bytes.data(), 257).error().message(),
              HasSubstr("Superblock 1 of a row has exponent 255, expected 40 to 254"));
  bytes[1] = 39;
  EXPECT_FALSE(CheckIntegerRow(bytes.data(), 257).ok());
  bytes[1] = 127;
  StoreLe<int16_t>(&bytes[2], -32640);
  EXPECT_THAT(CheckIntegerRow(bytes.data(), 257).error().message(),
              HasSubstr("a whole number of 32640, expected at most 32639"));
}

}  // namespace
}  // namespace weft
