// Element types of tensors: plain ones, and weight formats that store rows in blocks.
//
// A weight of shape [rows, columns] in q8 or q4 is two arrays (three with zero points), with
// blocks = ceil(columns / 32):
//   data   u8  [rows, blocks, 16] (q4: low nibble first) or [rows, blocks, 32] (q8)
//   scale  f16 [rows, blocks]
//   zero   u8  [rows, ceil(blocks / 2)], q4 only: two u4 zero points a byte, low nibble first;
//              absent means 8
// and value = (q - zero) * scale, zero = 8 for q4 and 128 for q8. Positions past `columns` in a
// row's last block hold the zero point. These are exactly the arrays of com.microsoft MatMulNBits
// (bits 4 or 8, block_size 32).
//
// q4s has superblocks of 256 columns, in each of which 16 columns share a whole multiplier:
//   data   u8  [rows, blocks, 16], as q4
//   scale  u16 [rows, superblocks, 6], superblocks = ceil(columns / 256): S as f16, the signs of 16
//              multipliers (bit i: multiplier i is negative), their 16 magnitudes of 4 bits
// and value = S * m * (q - 8), m = -15..-1 or 1..15. A row's last superblock may have fewer
// columns. Its data ends with its last block of 32, and its record has 12 bytes all the same.
// Multipliers of columns beyond the row are 1. So 256 columns take 128 + 12 bytes (4.375 bits a
// value), 40 columns take 32 + 12.
//
// q4k, q5k and q6k hold what llama.cpp's Q4_K, Q5_K and Q6_K hold, without loss. Rows are whole
// superblocks; levels q have 4, 5 or 6 bits, whose low four are data as in q4:
//   value = d * s * q - e * m       q4k, q5k: s and m are 0..63, of 32 columns each
//   value = d * s * (q - 32)        q6k: s is -128..127, of 16 columns
//   scale u16 [rows, superblocks, 8, 24 or 41]: d and e as f16 (q6k: d), then s and m, then the
//              other bits of q (kquants.h)
// So 256 columns take 144, 176 or 210 bytes: 4.5, 5.5 or 6.5625 bits a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kI32 = 3,
  kI64 = 4,
  kU8 = 5,
  kI8 = 6,
  kBool = 7,
  kQ8 = 16,
  kQ4 = 17,
  kQ4S = 18,
  kQ4K = 19,
  kQ5K = 20,
  kQ6K = 21,
};

inline constexpr int64_t kBlockValues = 32;
inline constexpr int64_t kSuperblockValues = 256;
inline constexpr int64_t kMultiplierValues = 16;  // columns that share a multiplier
inline constexpr int64_t kSuperblockWords = 6;    // u16 of a superblock of q4s in the array `scale`

// Gives the name on command lines, in manifests and in logs: "f32", "q4", ...
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);

constexpr bool IsKQuant(DType dtype) {
  return dtype == DType::kQ4K || dtype == DType::kQ5K || dtype == DType::kQ6K;
}
constexpr bool IsSuperblockFormat(DType dtype) {
  return dtype == DType::kQ4S || IsKQuant(dtype);
}
constexpr bool IsBlockFormat(DType dtype) {
  return dtype == DType::kQ8 || dtype == DType::kQ4 || IsSuperblockFormat(dtype);
}
// Gives the u16 of a superblock's record in the array `scale`. REQUIRES: IsSuperblockFormat(dtype).
constexpr int64_t RecordWords(DType dtype) {
  if (dtype == DType::kQ4S) return kSuperblockWords;
  return dtype == DType::kQ4K ? 8 : dtype == DType::kQ5K ? 24 : 41;
}

// Gives the bytes of one element. REQUIRES: !IsBlockFormat(dtype).
int64_t ElementBytes(DType dtype);
// Gives the bytes of one block's data array. REQUIRES: IsBlockFormat(dtype).
int64_t BlockDataBytes(DType dtype);
// Gives the blocks in a row of `columns` values.
constexpr int64_t BlockCount(int64_t columns) {
  return (columns + kBlockValues - 1) / kBlockValues;
}

constexpr int64_t SuperblockCount(int64_t columns) {
  return (columns + kSuperblockValues - 1) / kSuperblockValues;
}
// Gives the u16 of a row of the array `scale`. REQUIRES: IsBlockFormat(dtype).
constexpr int64_t ScaleWords(DType dtype, int64_t columns) {
  return IsSuperblockFormat(dtype) ? RecordWords(dtype) * SuperblockCount(columns)
                                   : BlockCount(columns);
}
// Gives the number of columns at whose multiples a matrix may be cut into views of its own.
constexpr int64_t CutColumns(DType dtype) {
  if (!IsBlockFormat(dtype)) return 1;
  return IsSuperblockFormat(dtype) ? kSuperblockValues : kBlockValues;
}

}  // namespace weft
