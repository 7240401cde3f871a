// Rows of a checkpoint tensor in the dtype of a package.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace weft::convert {

// Bytes of one row in `dtype`, without scales.
uint64_t RowDataBytes(DType dtype, uint64_t columns);
// Bytes of one row's f16 scales; 0 for plain dtypes.
uint64_t RowScaleBytes(DType dtype, uint64_t columns);

// Consecutive rows of a tensor of a plain float dtype.
struct SourceRows {
  DType dtype = DType::kF32;
  const uint8_t* data = nullptr;
  uint64_t first_row = 0;  // of `data` in its tensor, for messages
  uint64_t rows = 0;
  uint64_t columns = 0;
};

// Converts rows on up to `threads` threads. kInvalidData when a value is not finite, or its
// magnitude does not fit `to` (f16 above 65504, scales likewise); the caller names the tensor.
// REQUIRES: matching sizes.
Status ConvertRows(const SourceRows& in, DType to, MutableByteSpan data, MutableByteSpan scale,
                   unsigned threads);

}  // namespace weft::convert
