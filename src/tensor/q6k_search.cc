#include "tensor/q6k_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tensor/kquants.h"

namespace weft {
namespace {

constexpr size_t kGroupValues = kSuperblockValues / kKQuantGroups;
// A multiplier of 16 values makes steps of d * s. The least that is tried puts the greatest
// magnitude of its values at level -33, where it is clipped to -32: the others may gain more. The
// multipliers that follow put it nearer to 0. With the greatest of all multipliers the magnitude
// lies at -28.25.
constexpr float kFarLevel = 33, kNearLevel = 28.25f;
constexpr int32_t kMostMultiplier = 127, kCandidates = 16;

// One lane a group.
using Lanes = std::array<float, kKQuantGroups>;
// The bits of floats that are not negative, which are ordered as the floats are. Compilers make
// vectors of comparisons of whole numbers.
using Bits = std::array<int32_t, kKQuantGroups>;
// Value i of group g lies at [i][g].
using Columns = std::array<Lanes, kGroupValues>;

// The whole number nearest to x, an even one of two. REQUIRES: |x| < 2^22. Adding 1.5 * 2^23
// rounds, and leaves the number in the low bits.
int32_t Nearest(float x) {
  return std::bit_cast<int32_t>(x + 0x1.8p23f) - std::bit_cast<int32_t>(0x1.8p23f);
}

int32_t LevelOf(float x, float inverse) {
  return std::min(std::max(Nearest(x * inverse), -32), 31);
}

// Values are turned so that the one of the greatest magnitude is negative in each group.
struct Groups {
  Columns values;
  Lanes extremes;  // the greatest magnitude
  Bits signs;      // 1, or -1 where values were turned
};

void Prepare(const float* from, Groups* groups) {
  for (size_t g = 0; g < kKQuantGroups; ++g, from += kGroupValues) {
    float least = 0, most = 0;
    for (size_t i = 0; i < kGroupValues; ++i) {
      least = std::min(least, from[i]);
      most = std::max(most, from[i]);
    }
    const float sign = most > -least ? -1 : 1;
    for (size_t i = 0; i < kGroupValues; ++i) groups->values[i][g] = from[i] * sign;
    groups->signs[g] = static_cast<int32_t>(sign);
    groups->extremes[g] = std::max(most, -least);
  }
}

// Gives d for a superblock of this greatest magnitude. Near the smallest numbers of f16 d may be
// rounded by much. It then is one at which the magnitude lies within the levels.
uint16_t ScaleOf(float extreme) {
  constexpr uint16_t kSmallest = 1, kLargest = 0x7bff;
  uint16_t bits = F32ToF16(extreme / (kMostMultiplier * kNearLevel));
  bits = std::clamp(bits, kSmallest, kLargest);
  while (F16ToF32(bits) * (kMostMultiplier * 32) < extreme && bits < kLargest) ++bits;
  return bits;
}

// The sum of squares that levels of these steps leave of each group.
void FindErrors(const Columns& values, const Lanes& steps, Lanes* errors) {
  Lanes inverses, sums{};
  for (size_t g = 0; g < kKQuantGroups; ++g) inverses[g] = 1 / steps[g];
  for (const Lanes& lanes : values) {
    for (size_t g = 0; g < kKQuantGroups; ++g) {
      const auto level = static_cast<float>(LevelOf(lanes[g], inverses[g]));
      const float difference = lanes[g] - level * steps[g];
      sums[g] += difference * difference;
    }
  }
  *errors = sums;
}

// Gives the best multiplier of each group, the first of several.
Bits BestMultipliers(const Groups& groups, float scale) {
  const float inverse = 1 / (kFarLevel * scale);
  Bits first, best{}, least;
  for (size_t g = 0; g < kKQuantGroups; ++g)
    first[g] = std::max(Nearest(groups.extremes[g] * inverse), 1);
  least.fill(std::numeric_limits<int32_t>::max());
  for (int32_t i = 0; i < kCandidates; ++i) {
    Bits tried;
    Lanes steps, errors;
    for (size_t g = 0; g < kKQuantGroups; ++g) {
      tried[g] = std::min(first[g] + i, kMostMultiplier);
      steps[g] = static_cast<float>(tried[g]) * scale;
    }
    FindErrors(groups.values, steps, &errors);
    for (size_t g = 0; g < kKQuantGroups; ++g) {
      const auto error = std::bit_cast<int32_t>(errors[g]);
      best[g] = error < least[g] ? tried[g] : best[g];
      least[g] = error < least[g] ? error : least[g];
    }
  }
  return best;
}

void QuantizeSuperblock(const float* from, uint8_t* data, uint16_t* words) {
  Groups groups;
  Prepare(from, &groups);
  const float extreme = *std::max_element(groups.extremes.begin(), groups.extremes.end());
  std::array<int8_t, kKQuantGroups> multipliers{};
  std::array<int8_t, kSuperblockValues> levels{};
  words[0] = 0;
  // Else every level is 0 with the smallest step that there is.
  if (extreme > 0x1p-25f) {
    words[0] = ScaleOf(extreme);
    const float scale = F16ToF32(words[0]);
    const Bits best = BestMultipliers(groups, scale);
    for (size_t g = 0; g < kKQuantGroups; ++g) {
      multipliers[g] = static_cast<int8_t>(best[g] * groups.signs[g]);
      const float inverse = 1 / (static_cast<float>(best[g]) * scale);
      for (size_t i = 0; i < kGroupValues; ++i)
        levels[g * kGroupValues + i] = static_cast<int8_t>(LevelOf(groups.values[i][g], inverse));
    }
  }
  std::memcpy(words + 1, multipliers.data(), multipliers.size());
  WriteKQuantLevels(DType::kQ6K, levels, data, words);
}

}  // namespace

void QuantizeQ6kRow(std::span<const float> values, uint8_t* data, uint16_t* words) {
  constexpr auto kValues = static_cast<size_t>(kSuperblockValues);
  CHECK(values.size() % kValues == 0);
  for (size_t first = 0; first < values.size(); first += kValues) {
    QuantizeSuperblock(&values[first], data, words);
    data += kValues / 2;
    words += RecordWords(DType::kQ6K);
  }
}

}  // namespace weft
