// MXFP4 against the definition of its numbers, spelt out here once more.
#include "tensor/mxfp4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"

namespace weft {
namespace {

// Sign, two bits of exponent (bias 1), one of mantissa.
double E2m1(int bits) {
  const int exponent = bits >> 1 & 3, mantissa = bits & 1;
  const double magnitude =
      exponent == 0 ? 0.5 * mantissa : std::ldexp(1 + 0.5 * mantissa, exponent - 1);
  return bits & 8 ? -magnitude : magnitude;
}

class Mxfp4 : public ::testing::TestWithParam<Mxfp4Order> {
 protected:
  void Fill(size_t blocks, uint32_t least, uint32_t most) {
    SeededRandom random(7);
    for (size_t i = 0; i < blocks * kMxfp4Bytes; ++i) {
      indices_.push_back(static_cast<uint8_t>(random.Below(256)));
    }
    for (size_t b = 0; b < blocks; ++b) {
      exponents_.push_back(static_cast<uint8_t>(least + random.Below(most - least + 1)));
    }
  }
  Mxfp4Blocks Blocks() const {
    return {indices_.data(), kMxfp4Bytes, exponents_.data(), 1, GetParam()};
  }
  double Value(size_t i) const {
    const size_t block = i / 32, at = i % 32;
    const bool pairs = GetParam() == Mxfp4Order::kPairs;
    const int byte = indices_[block * kMxfp4Bytes + (pairs ? at / 2 : at % 16)];
    const bool high = pairs ? at % 2 == 1 : at >= 16;
    return std::ldexp(E2m1(high ? byte >> 4 : byte & 15), exponents_[block] - 127);
  }
  std::vector<float> FromQ8(const std::vector<uint8_t>& data,
                            const std::vector<uint16_t>& scales) const {
    std::vector<float> values(scales.size() * 32);
    DequantizeRow(DType::kQ8, data, scales, {}, values);
    return values;
  }

  std::vector<uint8_t> indices_, exponents_;
};

TEST_P(Mxfp4, IsQ8WithoutAnyChangeOfAValue) {
  Fill(400, 104, 143);
  std::vector<uint8_t> data(400 * 32);
  std::vector<uint16_t> scales(400);
  ASSERT_TRUE(Mxfp4ToQ8(Blocks(), data.data(), scales));
  const std::vector<float> held = FromQ8(data, scales);
  for (size_t i = 0; i < held.size(); ++i) {
    ASSERT_EQ(static_cast<double>(held[i]), Value(i)) << "value " << i;
  }
}

TEST_P(Mxfp4, IsReadAsFloats) {
  Fill(600, 0, 252);
  std::vector<float> values(600 * 32);
  Mxfp4ToF32(Blocks(), values);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(static_cast<double>(values[i]), Value(i)) << "value " << i;
  }
}

TEST_P(Mxfp4, ScalesThatNoHalfHasAreQuantised) {
  Fill(64, 90, 150);
  std::vector<uint8_t> data(64 * 32, 1);
  std::vector<uint16_t> scales(64, 1);
  EXPECT_FALSE(Mxfp4ToQ8(Blocks(), data.data(), scales));
  EXPECT_EQ(data, std::vector<uint8_t>(64 * 32, 1));
  for (uint8_t& exponent : exponents_) exponent = std::min<uint8_t>(exponent, 143);
  Mxfp4ToNearestQ8(Blocks(), data, scales);
  const std::vector<float> held = FromQ8(data, scales);
  for (size_t i = 0; i < held.size(); ++i) {
    // Below the least f16 there is nothing between 0 and it.
    ASSERT_NEAR(static_cast<double>(held[i]), Value(i), std::ldexp(6.0, -24)) << "value " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Mxfp4, ::testing::Values(Mxfp4Order::kPairs, Mxfp4Order::kHalves),
                         [](const auto& test) {
                           return test.param == Mxfp4Order::kPairs ? "Pairs" : "Halves";
                         });

}  // namespace
}  // namespace weft
