// Matrix product with a stored weight: out = in * weight^T + bias, every weight format, activations
// and sums in f32.
//
// Weights of q4s have a rule of their own (integer_rows.h), the same bits from every kernel, of the
// oracle too. SIMD kernels want them as panels; as stored they are multiplied slowly.
//
// Batch invariance: out[r][n] is the sum of the same products in the same order whatever the number
// of rows. Threads share out the columns of `out`, never the sum over K.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct MatMulArgs {
  ConstRows in;                 // [rows, K]
  Matrix weight;                // [N, K]
  std::span<const float> bias;  // [N], or empty
  Rows out;                     // [rows, N]; must not overlap `in`
  // Which rows of `in` are multiplied, one a row of `out`; empty: all, in order. Products that take
  // rows of the same `in` prepare each row once.
  std::span<const uint32_t> picked;

  size_t RowOfIn(size_t r) const { return picked.empty() ? r : picked[r]; }
  bool Fits() const {
    return in.columns == weight.columns && out.columns == weight.rows &&
           out.rows == (picked.empty() ? in.rows : picked.size()) &&
           (bias.empty() || bias.size() == out.columns);
  }
};

void MatMulReference(const MatMulArgs& args, Workspace& workspace);

// Runs several products that do not read each other's results (q, k, v; gate, up; the experts of a
// row) as one parallel region.
void MatMulsReference(std::span<const MatMulArgs> calls, Workspace& workspace);
void MatMulsSimd(std::span<const MatMulArgs> calls, Workspace& workspace);

// Floats of Workspace::kMatMulInput that a product of `rows` rows with K = `columns` needs at most;
// products of one region add up, and so do the rows that are picked and those they are picked from.
constexpr size_t MatMulScratchFloats(size_t rows, size_t columns) {
  return rows * ((columns + 255) / 256 * 256);
}

}  // namespace weft::kernels
