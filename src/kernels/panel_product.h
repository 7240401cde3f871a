// A product with panels, as its kernels (panel_matmul.h) are given it.
#pragma once

#include <cstddef>

#include "kernels/integer_rows.h"
#include "kernels/matrix.h"
#include "kernels/panel_layout.h"
#include "kernels/read_ahead.h"  // IWYU pragma: export

namespace weft::kernels {

// out[r][n] = the product of prepared row r with output n of `weight`, plus bias[n].
struct PanelProduct {
  const IntegerInput* in = nullptr;  // [rows, superblocks]
  size_t rows = 0;
  Matrix weight;                // panels
  const float* bias = nullptr;  // [weight.rows], or null
  float* out = nullptr;         // [rows, weight.rows]
  size_t out_stride = 0;        // floats
  ReadAhead one_row = ReadAheadOfOneRow();

  size_t superblocks() const { return (weight.columns + 255) / 256; }
  // Panels that have outputs of this matrix: the first and the last may have others, too.
  size_t first_panel() const { return weight.first_row / kPanelOutputs; }
  size_t end_panel() const {
    return (weight.first_row + weight.rows + kPanelOutputs - 1) / kPanelOutputs;
  }
  // Rows [first, first + count) of it.
  PanelProduct Rows(size_t first, size_t count) const {
    PanelProduct part = *this;
    part.in += first * superblocks();
    part.out += first * out_stride;
    part.rows = count;
    return part;
  }
  size_t panel_bytes() const { return PanelBytes(weight.dtype, weight.columns); }
  const uint8_t* Panel(size_t panel) const { return weight.panels + panel * panel_bytes(); }
};

// Adds the bias to 16 outputs of a panel, and stores those that are in `product`.
void StorePanel(const PanelProduct& product, size_t panel, size_t row, const float* y);

}  // namespace weft::kernels
