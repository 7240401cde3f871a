// Rows of activations as whole numbers, as integer kernels multiply them (kernels/integer_rows.h
// has the rule): an exponent for each superblock of 256 columns and 16 bits for each value, half
// of f32's bytes.
//
//   a row of 300 columns    u8 e of columns 0 to 255, u8 e of 256 to 299, then i16 x of each
//
// What is read back is another row of f32, of which the rule makes the very same whole numbers. So
// no product of weights in superblocks changes a bit, whoever has the row. Example: (1, -0.5) has e
// = 127 and x = (16320, -8160), and is read as (1.0000306, -0.5000153).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace weft {

inline constexpr float kIntegerHeadroom = 0.996063232421875f;  // 32639 / 32768
inline constexpr float kIntegerInverseHeadroom = 1.003952326971f;
inline constexpr uint32_t kLeastRowExponent = 40, kMostRowExponent = 254;
inline constexpr int32_t kMostInteger = 32639;

// e of a superblock; nullopt: one of its values is not finite.
std::optional<uint32_t> ExponentOf(std::span<const float> superblock);
// x of a value is FactorOf(e) times it, rounded to the nearest, ties to even; ScaleOf(e) times x is
// about the value again.
constexpr float PowerOfTwo(uint32_t biased_exponent) {
  return std::bit_cast<float>(biased_exponent << 23);
}
constexpr float FactorOf(uint32_t e) {
  return PowerOfTwo(268 - e) * kIntegerHeadroom;
}
constexpr float ScaleOf(uint32_t e) {
  return PowerOfTwo(e - 14) * kIntegerInverseHeadroom;
}

constexpr size_t IntegerRowBytes(size_t columns) {
  return static_cast<size_t>(SuperblockCount(static_cast<int64_t>(columns))) +
         sizeof(int16_t) * columns;
}
// Writes IntegerRowBytes(row.size()) bytes. REQUIRES: all values are finite.
void StoreIntegerRow(std::span<const float> row, uint8_t* out);
// REQUIRES: what StoreIntegerRow could have written, IntegerRowBytes(row.size()) bytes.
void ReadIntegerRow(const uint8_t* from, std::span<float> row);
// Whether so many bytes could be such a row; kInvalidData says what is impossible.
Status CheckIntegerRow(const uint8_t* from, size_t columns);

}  // namespace weft
