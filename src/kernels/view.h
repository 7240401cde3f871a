// What kernels work on: rows of f32 activations, and rows of weight matrices. Non-owning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matrix.h"

namespace weft::kernels {

// [rows, columns] f32; row r begins at data + r * stride (a view of some columns of a wider
// buffer).
struct ConstRows {
  const float* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  size_t stride = 0;

  std::span<const float> Row(size_t r) const { return {data + r * stride, columns}; }
};

struct Rows {
  float* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  size_t stride = 0;

  std::span<float> Row(size_t r) const { return {data + r * stride, columns}; }
  operator ConstRows() const {
    return {data, rows, columns, stride};
  }  // NOLINT: implicit by design
};

// One row of `matrix` as f32. REQUIRES: out.size() == matrix.columns.
void ReadRow(const Matrix& matrix, size_t row, std::span<float> out);

}  // namespace weft::kernels
