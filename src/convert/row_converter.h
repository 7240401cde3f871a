// Rows of a checkpoint tensor in the dtype of a package.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "convert/row_format.h"
#include "tensor/dtype.h"

namespace weft::convert {

// Bytes of one row in `dtype`, without scales.
uint64_t RowDataBytes(DType dtype, uint64_t columns);
// Bytes of one row's f16 scales; 0 for plain dtypes.
uint64_t RowScaleBytes(DType dtype, uint64_t columns);

// Consecutive rows of a tensor.
struct SourceRows {
  RowFormat format = RowFormat::kF32;
  const uint8_t* data = nullptr;  // row 0 of the whole tensor
  uint64_t first_row = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t interleaved_rows = 0;  // as in SourceTensor
};

// Converts rows on up to `threads` threads, without any change where IsExact(format, to).
// kInvalidData when a value is not finite, or its magnitude does not fit `to` (f16 above 65504,
// scales likewise); the caller names the tensor.
// REQUIRES: matching sizes.
Status ConvertRows(const SourceRows& in, DType to, MutableByteSpan data, MutableByteSpan scale,
                   unsigned threads);

}  // namespace weft::convert
