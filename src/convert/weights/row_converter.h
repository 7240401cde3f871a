// Rows of a checkpoint tensor in the dtype of a package.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "convert/source/coded_matrix.h"
#include "convert/source/row_format.h"
#include "tensor/dtype.h"

namespace weft::convert {

// Bytes of one row in `dtype`, without scales.
uint64_t RowDataBytes(DType dtype, uint64_t columns);
// Bytes of one row's f16 scales; 0 for plain dtypes.
uint64_t RowScaleBytes(DType dtype, uint64_t columns);
// Bytes of one row's zero points in q4, two a byte.
uint64_t RowZeroBytes(uint64_t columns);

// Where a weight's arrays go. `zero` is empty where q4's zero points are all 8.
struct TargetRows {
  MutableByteSpan data;
  MutableByteSpan scale;
  MutableByteSpan zero;
};

// Rows of a tensor: first_row, first_row + row_step, ...
struct SourceRows {
  RowFormat format = RowFormat::kF32;
  // Row 0 of the whole tensor. Where the tensor lies transposed: its first value.
  const uint8_t* data = nullptr;
  // MXFP4 as safetensors hold it: `data` has blocks of 16 bytes, low nibble first, and here are
  // their exponents, one byte each.
  const uint8_t* exponents = nullptr;
  // Of a coded format; not owned.
  const CodedMatrix* coded = nullptr;
  uint64_t first_row = 0;
  uint64_t row_step = 1;
  uint64_t rows = 0;
  uint64_t columns = 0;
  // Where the tensor lies transposed, as [columns, transposed_rows] plain floats: its rows in all.
  uint64_t transposed_rows = 0;
  uint64_t matrix_first_row = 0;  // of the whole transposed tensor, where it is coded
  uint64_t interleaved_rows = 0;  // as in SourceTensor
  float offset = 0;               // added to every value
  bool minus_exp = false;         // every value x becomes -e^x
  float factor = 1;               // of every value, after all else
};

// Converts rows on up to `threads` threads, without any change where IsExact(format, to).
// kInvalidData when a value is not finite, or its magnitude does not fit `to` (f16 above 65504,
// scales likewise); the caller names the tensor.
// REQUIRES: matching sizes.
Status ConvertRows(const SourceRows& in, DType to, const TargetRows& out, unsigned threads);

}  // namespace weft::convert
