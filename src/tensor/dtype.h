// Element types of tensors: plain ones, and weight formats that store rows in blocks of 32 values.
//
// A block-format weight of shape [rows, columns] is two arrays (three with zero points):
//   data    u8  [rows, blocks, 16] (q4: low nibble first) or [rows, blocks, 32] (q8), blocks =
//   ceil(columns / 32) scale   f16 [rows, blocks] zero    u8  [rows, ceil(blocks / 2)], q4 only,
//   two u4 zero points a byte, low nibble first; absent means 8
// and value = (q - zero) * scale, zero = 8 for q4 and 128 for q8. Positions past `columns` in a
// row's last block hold the zero point. These are exactly the arrays of com.microsoft MatMulNBits
// (bits 4 or 8, block_size 32).
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
};

inline constexpr int64_t kBlockValues = 32;

// "f32", "q4", ...: the spelling of command lines, manifests and logs.
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);

constexpr bool IsBlockFormat(DType dtype) {
  return dtype == DType::kQ8 || dtype == DType::kQ4;
}

// Bytes of one element. REQUIRES: !IsBlockFormat(dtype).
int64_t ElementBytes(DType dtype);
// Bytes of one block's data array. REQUIRES: IsBlockFormat(dtype).
int64_t BlockDataBytes(DType dtype);
// Blocks in a row of `columns` values.
constexpr int64_t BlockCount(int64_t columns) {
  return (columns + kBlockValues - 1) / kBlockValues;
}

}  // namespace weft
