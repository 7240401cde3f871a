#include "convert/weights/source_rows.h"

#include <algorithm>
#include <utility>

#include "convert/weights/weight_specs.h"

namespace weft::convert {

SourceRows RowsOf(const WeightSpec& weight, const SourcePiece& piece, const TensorMap& tensors) {
  const SourceTensor& tensor = tensors.find(piece.tensor)->second;
  SourceRows rows{.format = FormatOf(piece, tensors), .data = tensor.bytes.bytes().data()};
  rows.first_row = piece.first_row;
  rows.row_step = piece.row_step;
  rows.rows = piece.rows;
  rows.columns = piece.columns;
  rows.interleaved_rows = tensor.interleaved_rows;
  rows.offset = tensor.norm_holds_one ? 0 : weight.offset;
  rows.minus_exp = weight.minus_exp && !tensor.holds_decay;
  rows.factor = weight.factor;
  if (!piece.factors.empty()) {
    const SourceTensor& factors = tensors.find(piece.factors)->second;
    std::vector<float> values(piece.factor_count);
    ReadRow(*factors.format, factors.bytes.bytes().data(), values);
    rows.factor *= values[piece.factor_index];
  }
  if (!piece.exponents.empty()) {
    rows.exponents = tensors.find(piece.exponents)->second.bytes.bytes().data();
  }
  rows.coded = tensor.coded.get();
  if (piece.transposed) {
    rows.transposed_rows = piece.shape.back();
    const uint64_t matrix_rows = std::max(piece.matrix_rows, piece.columns);
    rows.matrix_first_row = piece.matrix * matrix_rows;
    if (rows.coded == nullptr)
      rows.data += piece.matrix * rows.transposed_rows * RowBytes(rows.format, matrix_rows);
  }
  // The elements of a vector may be interleaved like rows.
  if (weight.shape.size() == 1 && tensor.interleaved_rows > 0 && rows.rows == 1) {
    std::swap(rows.rows, rows.columns);
  }
  return rows;
}

}  // namespace weft::convert
