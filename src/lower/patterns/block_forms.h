// The array beside a quantised matrix's data tells its form: f16 scales of blocks of 32, or records
// of superblocks as u8, as many bytes as the form has (tensor/dtype.h).
#pragma once

#include <cstdint>

#include "onnx/graph.h"
#include "tensor/dtype.h"

namespace weft::lower {

// Bytes of a row of records.
inline int64_t RecordRowBytes(DType dtype, int64_t columns) {
  return 2 * ScaleWords(dtype, columns);
}

// The form of 4 or 8 bits whose array beside the data is of `scale_type` with `row_count` elements
// a row; that of blocks of 32 where none has such an array.
inline DType FormOf(int64_t bits, onnx::ElementType scale_type, int64_t row_count,
                    int64_t columns) {
  if (bits == 8) return DType::kQ8;
  if (scale_type != onnx::ElementType::kUint8) return DType::kQ4;
  for (const DType dtype : {DType::kQ4S, DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    const bool fits = dtype == DType::kQ4S || columns % kSuperblockValues == 0;
    if (fits && row_count == RecordRowBytes(dtype, columns)) return dtype;
  }
  return DType::kQ4;
}

// Whether an array of this type and so many elements a row belongs to a matrix of this form.
inline bool AreScales(onnx::ElementType type, int64_t row_count, DType dtype, int64_t columns) {
  if (IsSuperblockFormat(dtype))
    return type == onnx::ElementType::kUint8 && row_count == RecordRowBytes(dtype, columns);
  return type == onnx::ElementType::kFloat16 && row_count == BlockCount(columns);
}

}  // namespace weft::lower
