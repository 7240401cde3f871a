// Rows that travel as whole numbers (tensor/integer_row.h) are the very rows that products see.
#include "kernels/integer_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"

namespace weft::kernels {
namespace {

std::vector<IntegerInput> Prepared(const std::vector<float>& row) {
  std::vector<IntegerInput> prepared((row.size() + 255) / 256);
  PrepareIntegers(row, prepared.data());
  return prepared;
}

void ExpectTheSameIntegers(const std::vector<float>& row) {
  std::vector<uint8_t> bytes(IntegerRowBytes(row.size()));
  StoreIntegerRow(row, bytes.data());
  ASSERT_TRUE(CheckIntegerRow(bytes.data(), row.size()).ok());
  std::vector<float> read(row.size());
  ReadIntegerRow(bytes.data(), read);
  const std::vector<IntegerInput> wanted = Prepared(row), got = Prepared(read);
  EXPECT_EQ(std::memcmp(got.data(), wanted.data(), wanted.size() * sizeof(IntegerInput)), 0)
      << "the first value is " << row[0];
}

TEST(IntegerRows, AreTheSameWhenTheyHaveTravelled) {
  SeededRandom random(1);
  for (const size_t columns : {1, 16, 255, 256, 257, 600, 1024}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<float> row(columns);
      const int exponent = static_cast<int>(random.Below(250)) - 125;
      for (float& value : row)
        value = std::ldexp(static_cast<float>(random.Uniform()) * 2 - 1,
                           exponent - static_cast<int>(random.Below(6)));
      ExpectTheSameIntegers(row);
    }
  }
}

// Every exponent, with the largest magnitude at both ends of it and at each edge of rounding.
TEST(IntegerRows, AreTheSameAtTheEndsOfEveryExponent) {
  for (uint32_t e = 0; e <= kMostRowExponent; ++e) {
    for (const uint32_t fraction :
         {0u, 1u, 0x400000u, 0x7ffefeu, 0x7fff00u, 0x7ffffeu, 0x7fffffu}) {
      const auto most = std::bit_cast<float>(e << 23 | fraction);
      for (const float sign : {1.f, -1.f})
        ExpectTheSameIntegers({sign * most, most / 2, -most / 3, 0, most * 0.9999f});
    }
  }
}

TEST(IntegerRows, AreTheSameWhateverTheLargestIntegerIs) {
  for (int32_t x = 16320; x <= kMostInteger; ++x) {
    const auto value = static_cast<float>(x) * ScaleOf(127);
    if (ExponentOf({&value, 1}) != 127u) continue;
    ExpectTheSameIntegers({value, -value, value / 7});
    ExpectTheSameIntegers({std::nextafter(value, 0.f), std::nextafter(value, 1.f)});
  }
}

}  // namespace
}  // namespace weft::kernels
