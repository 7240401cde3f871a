#include "tensor/finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/half.h"

namespace weft {
namespace {

template <typename Word>
ByteSpan BytesOf(const std::vector<Word>& words) {
  return {reinterpret_cast<const uint8_t*>(words.data()), words.size() * sizeof(Word)};
}

// Every pattern of 16 bits, beside what the library says of its value.
TEST(CountNotFinite, IsWhatTheLibrarySaysOfEveryHalf) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const std::vector<uint16_t> one = {static_cast<uint16_t>(bits)};
    ASSERT_EQ(CountNotFinite(DType::kF16, BytesOf(one)), !std::isfinite(F16ToF32(one[0])));
    ASSERT_EQ(CountNotFinite(DType::kBF16, BytesOf(one)), !std::isfinite(BF16ToF32(one[0])));
    const std::vector<uint32_t> wide = {bits << 16};
    ASSERT_EQ(CountNotFinite(DType::kF32, BytesOf(wide)),
              !std::isfinite(std::bit_cast<float>(wide[0])));
  }
}

TEST(CountNotFinite, FindsOneAtEveryPlace) {
  for (size_t count : {1u, 31u, 32u, 33u, 100u})
    for (size_t bad = 0; bad < count; ++bad) {
      std::vector<float> values(count, -1e30f);
      EXPECT_EQ(CountNotFinite(DType::kF32, BytesOf(values)), 0u);
      values[bad] = bad % 2 == 0 ? std::numeric_limits<float>::infinity() : NAN;
      EXPECT_EQ(CountNotFinite(DType::kF32, BytesOf(values)), 1u);
    }
}

TEST(CountNotFinite, CountsMoreThanAWordOfAHalfHolds) {
  const std::vector<uint16_t> rows(200'000, 0xfc00);
  EXPECT_EQ(CountNotFinite(DType::kF16, BytesOf(rows)), 200'000u);
}

// Rows come at any address: behind a header of any length.
TEST(CountNotFinite, NeedsNoAlignment) {
  std::vector<uint8_t> bytes(1 + 64 * 4, 0);
  const float bad = NAN;
  std::memcpy(&bytes[1 + 40 * 4], &bad, sizeof(bad));
  EXPECT_EQ(CountNotFinite(DType::kF32, ByteSpan(bytes).subspan(1)), 1u);
}

}  // namespace
}  // namespace weft
