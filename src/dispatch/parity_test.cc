#include "dispatch/parity.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace weft::dispatch {
namespace {

// The definition: multiply polynomials, then take the remainder by x^8 + x^4 + x^3 + x^2 + 1.
uint8_t ProductByDefinition(uint8_t a, uint8_t b) {
  uint32_t product = 0;
  for (int i = 0; i < 8; ++i)
    if ((b >> i & 1) != 0) product ^= uint32_t{a} << i;
  for (int bit = 15; bit >= 8; --bit)
    if ((product >> bit & 1) != 0) product ^= 0x11du << (bit - 8);
  return static_cast<uint8_t>(product);
}

TEST(Parity, TheFieldIsThatOfItsPolynomial) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b)
      ASSERT_EQ(TimesInField(static_cast<uint8_t>(a), static_cast<uint8_t>(b)),
                ProductByDefinition(static_cast<uint8_t>(a), static_cast<uint8_t>(b)));
  for (int a = 1; a < 256; ++a)
    EXPECT_EQ(TimesInField(static_cast<uint8_t>(a), InverseInField(static_cast<uint8_t>(a))), 1);
}

// Any two packets can be told apart by P and Q.
TEST(Parity, FactorsOfTwoPacketsNeverCancel) {
  for (size_t x = 0; x < kMostOfParity; ++x)
    for (size_t y = 0; y < x; ++y)
      EXPECT_NE(ParityFactor(ParityKind::kQ, x), ParityFactor(ParityKind::kQ, y));
}

TEST(Parity, DoublingFromTheLastPacketIsTheSumByFactors) {
  SeededRandom random(4);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<uint8_t>> packets(1 + random.Below(kMostOfParity));
    std::vector<uint8_t> doubled, by_factors, plain(40);
    for (std::vector<uint8_t>& packet : packets) {
      packet.resize(random.Below(40));
      for (uint8_t& byte : packet) byte = static_cast<uint8_t>(random.Below(256));
    }
    for (size_t i = packets.size(); i > 0; --i) DoubleAndAdd(packets[i - 1], doubled);
    for (size_t i = 0; i < packets.size(); ++i) {
      AddTimes(ParityFactor(ParityKind::kQ, i), packets[i], by_factors);
      for (size_t k = 0; k < packets[i].size(); ++k)
        plain[k] = static_cast<uint8_t>(
            plain[k] ^ ProductByDefinition(packets[i][k], static_cast<uint8_t>(1u << i)));
    }
    plain.resize(by_factors.size());
    EXPECT_EQ(by_factors, plain);
    EXPECT_EQ(doubled, plain);
  }
}

}  // namespace
}  // namespace weft::dispatch
