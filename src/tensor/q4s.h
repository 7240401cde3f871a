// Records of q4s (dtype.h): what a superblock of 256 columns has beside its nibbles.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace weft {

inline constexpr size_t kMultipliers = kSuperblockValues / kMultiplierValues;  // of a superblock

struct Q4sRecord {
  uint16_t scale = 0;                              // S, f16
  std::array<int8_t, kMultipliers> multipliers{};  // -15..-1, 1..15
};

// The record in kSuperblockWords u16 at `words`, and back. What CheckQ4sRow refuses reads as
// multipliers of 0.
Q4sRecord ReadQ4sRecord(const uint16_t* words);
void WriteQ4sRecord(const Q4sRecord& record, uint16_t* words);

// Whether every record of a row is one: S finite, no multiplier 0, and multipliers of columns that
// there are not exactly 1. kInvalidData names the superblock, the multiplier and what it is.
// REQUIRES: ScaleWords(kQ4S, columns) words.
Status CheckQ4sRow(std::span<const uint16_t> words, int64_t columns);

}  // namespace weft
