// This is the search for S, multipliers and levels of a superblock of q4s (dtype.h). `Ops` does
// everything that concerns all 256 values, with vectors or one value after another. Only src/tensor
// uses it.
//
// The search works on whole numbers, so that every processor finds the same. Values become X = 0 ..
// +-16,383. S becomes `unit`, the step that a multiplier of 1 makes on that scale. A multiplier m
// of 16 values makes steps of m * unit. A unit is tried with three multipliers for every 16 values.
// The best unit and its multipliers are then improved in turns: the unit by least squares, the
// multipliers by their neighbours.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "tensor/half.h"
#include "tensor/q4s.h"

namespace weft {

inline constexpr size_t kPairRows = 8;  // pairs of values that share a multiplier
inline constexpr float kLargestX = 16383;

// Value 2 j + p of multiplier g lies at pairs[j][2 g + p]. It is turned so that the greatest
// magnitude of each multiplier's values is negative. Levels reach from -8 to 7.
struct Q4sValues {
  alignas(64) int16_t pairs[kPairRows][2 * kMultipliers];
  alignas(64) int32_t extreme[kMultipliers];  // the greatest magnitude
  std::array<int8_t, kMultipliers> sign;      // 1, or -1 where values were turned
};
// Multipliers without signs, 1 to 15.
struct alignas(64) Q4sMultipliers {
  int32_t m[kMultipliers];
};

// A step for multiplier m, and 64 of its inverses over 2^15: a level is X * inverse, rounded twice.
struct Q4sStep {
  int32_t step, inverse;
};
inline Q4sStep StepOf(float unit, int32_t m) {
  const auto step = static_cast<int32_t>(std::lrintf(unit * static_cast<float>(m)));
  return {step, static_cast<int32_t>(std::lrintf(0x1p21f / static_cast<float>(step)))};
}

// Units between these keep every product of the search within 16 bits.
inline constexpr float kLeastUnit = 65, kMostUnit = 270;
// The units that are tried: a multiplier of 15 puts the superblock's extreme at -9.4 to -6.
inline constexpr size_t kUnits = 18;
constexpr float UnitOf(size_t index) {
  return kLargestX / (15 * 7.5f) * (0.82f + 0.40f * static_cast<float>(index) / (kUnits - 1));
}
// A multiplier is looked for where it puts the extreme of its values at this level, and at one more
// and one less.
inline constexpr float kUsualLevel = 7.6f;
inline constexpr int kTurns = 2;

// Ops has, for values X at `in`:
//   Prepare(values, extreme, in): `extreme`, the greatest magnitude of the 256, is not 0
//   Best(in, unit, around, best): per multiplier the one of m, m - 1 and m + 1 within 1..15, m =
//     around.m, that leaves the least sum of squares, the first of several; the sum of all of
//     these sums, each over 16
//   Fit(in, unit, multipliers): the least-squares factor of the levels that they make of X
//   Store(values, steps, data): levels for true steps, as nibbles
template <typename Ops>
void SearchSuperblock(const float* values, uint8_t* data, size_t data_bytes, uint16_t* words) {
  const float extreme = Ops::Extreme(values);
  Q4sRecord record;
  record.multipliers.fill(1);
  alignas(64) float steps[kMultipliers] = {};
  // Else every S is 0 in f16, and so is every value.
  if (F32ToF16(extreme / (15 * 9.4f)) != 0) {
    Q4sValues in;
    Ops::Prepare(values, extreme, &in);
    Q4sMultipliers best, around, found;
    float best_unit = 0;
    int32_t least = 0;
    for (size_t u = 0; u < kUnits; ++u) {
      const float unit = UnitOf(u);
      Ops::Around(in, 1 / (kUsualLevel * unit), &around);
      const int32_t error = Ops::Best(in, unit, around, &found);
      if (u > 0 && error >= least) continue;
      least = error;
      best = found;
      best_unit = unit;
    }
    for (int turn = 0; turn < kTurns; ++turn) {
      const float unit = std::clamp(Ops::Fit(in, best_unit, best), kLeastUnit, kMostUnit);
      const int32_t error = Ops::Best(in, unit, best, &found);
      if (error >= least) break;
      least = error;
      best = found;
      best_unit = unit;
    }
    record.scale = F32ToF16(best_unit * (extreme / kLargestX));
    const float scale = F16ToF32(record.scale);
    for (size_t g = 0; g < kMultipliers; ++g) {
      record.multipliers[g] = static_cast<int8_t>(best.m[g] * in.sign[g]);
      steps[g] = scale * static_cast<float>(record.multipliers[g]);
    }
  }
  WriteQ4sRecord(record, words);
  Ops::Store(values, steps, data, data_bytes);
}

// Quantises one row, as QuantizeRow of blocks.h does.
template <typename Ops>
void SearchRow(const float* values, size_t columns, uint8_t* data, uint16_t* words) {
  constexpr auto kValues = static_cast<size_t>(kSuperblockValues);
  for (size_t first = 0; first < columns; first += kValues) {
    const size_t count = std::min(kValues, columns - first);
    const size_t data_bytes = static_cast<size_t>(BlockCount(static_cast<int64_t>(count))) * 16;
    const float* from = values + first;
    float padded[kValues] = {};
    if (count < kValues) from = std::copy_n(from, count, padded) - count;
    SearchSuperblock<Ops>(from, data, data_bytes, words);
    data += data_bytes;
    words += kSuperblockWords;
  }
}

// Quantise a row with vectors, and without. REQUIRES: matching sizes.
void QuantizeQ4sRow(std::span<const float> values, uint8_t* data, uint16_t* words);
void QuantizeQ4sRowReference(std::span<const float> values, uint8_t* data, uint16_t* words);

}  // namespace weft
