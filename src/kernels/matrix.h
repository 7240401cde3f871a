// A weight matrix in any stored format, as kernels read it. Non-owning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/dtype.h"

namespace weft::kernels {

// A weight [rows, columns] as stored (tensor/dtype.h), row after row without gaps. `data` is
// aligned to the element (block formats: 1 byte), `scale` is [rows, scale_words] u16, `zero` is
// null or [rows, ceil(blocks / 2)]. Or, in q4s, as panels (q4s_panels.h): `panels` has all rows of
// the weight then, of which this matrix is those from `first_row` on, and the others are null.
struct Matrix {
  DType dtype = DType::kF32;
  size_t rows = 0;
  size_t columns = 0;
  const uint8_t* data = nullptr;
  const uint16_t* scale = nullptr;
  const uint8_t* zero = nullptr;
  const uint8_t* panels = nullptr;
  size_t first_row = 0;

  size_t blocks() const { return static_cast<size_t>(BlockCount(static_cast<int64_t>(columns))); }
  size_t data_row_bytes() const {
    if (IsBlockFormat(dtype)) return blocks() * static_cast<size_t>(BlockDataBytes(dtype));
    return columns * static_cast<size_t>(ElementBytes(dtype));
  }
  // REQUIRES: IsBlockFormat(dtype).
  size_t scale_words() const {
    return static_cast<size_t>(ScaleWords(dtype, static_cast<int64_t>(columns)));
  }
  size_t zero_row_bytes() const { return (blocks() + 1) / 2; }

  const uint8_t* DataRow(size_t r) const { return data + r * data_row_bytes(); }
  const uint16_t* ScaleRow(size_t r) const { return scale + r * scale_words(); }
  const uint8_t* ZeroRow(size_t r) const { return zero + r * zero_row_bytes(); }

  // Rows [first, first + count). REQUIRES: they exist.
  Matrix Sub(size_t first, size_t count) const {
    CHECK(first <= rows && count <= rows - first);
    Matrix part = *this;
    part.rows = count;
    if (panels != nullptr) {
      part.first_row += first;
      return part;
    }
    part.data = DataRow(first);
    if (scale != nullptr) part.scale = ScaleRow(first);
    if (zero != nullptr) part.zero = ZeroRow(first);
    return part;
  }
};

}  // namespace weft::kernels
