// For tests: weights from seeds, by the rule that the head of tools/testdata/seeded.mjs explains.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// The end of MurmurHash3.
constexpr uint32_t MixedBits(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

// Value `index` of a run in [0, 1).
constexpr double SeededUniform(uint32_t seed, uint32_t index) {
  return (MixedBits(seed + 0x9E3779B9u * (index + 1)) >> 8) / 16777216.0;
}

// [count] values of a run from low to high, rounded to f32.
inline std::vector<float> SeededValues(uint32_t seed, uint32_t count, double low, double high) {
  std::vector<float> values(count);
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(low + (high - low) * SeededUniform(seed, i));
  }
  return values;
}

}  // namespace weft
