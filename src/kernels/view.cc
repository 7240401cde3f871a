#include "kernels/view.h"

#include "kernels/panels.h"
#include "tensor/blocks.h"

namespace weft::kernels {

void ReadRow(const Matrix& matrix, size_t row, std::span<float> out) {
  CHECK(row < matrix.rows && out.size() == matrix.columns);
  if (matrix.panels != nullptr) return ReadPanelRow(matrix, row, out);
  if (!IsBlockFormat(matrix.dtype)) {
    ToF32(matrix.dtype, matrix.DataRow(row), out);
    return;
  }
  const ByteSpan zero =
      matrix.zero == nullptr ? ByteSpan{} : ByteSpan{matrix.ZeroRow(row), matrix.zero_row_bytes()};
  DequantizeRow(matrix.dtype, {matrix.DataRow(row), matrix.data_row_bytes()},
                {matrix.ScaleRow(row), matrix.scale_words()}, zero, out);
}

}  // namespace weft::kernels
