// Products with panels of q4s, one kernel an instruction set. All have the bits of Q4sDot
// (q4s_rows.h), whatever the number of rows and wherever outputs are cut.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/q4s_panels.h"
#include "kernels/q4s_rows.h"

namespace weft::kernels {

// out[r][n] = the product of prepared row r with output n of `weight`, plus bias[n].
struct Q4sProduct {
  const Q4sInput* in = nullptr;  // [rows, superblocks]
  size_t rows = 0;
  Matrix weight;                // panels
  const float* bias = nullptr;  // [weight.rows], or null
  float* out = nullptr;         // [rows, weight.rows]
  size_t out_stride = 0;        // floats

  size_t superblocks() const { return (weight.columns + 255) / 256; }
  // Panels that have outputs of this matrix: the first and the last may have others, too.
  size_t first_panel() const { return weight.first_row / kPanelOutputs; }
  size_t end_panel() const {
    return (weight.first_row + weight.rows + kPanelOutputs - 1) / kPanelOutputs;
  }
  const uint8_t* Panel(size_t panel) const {
    return weight.panels + panel * PanelBytes(weight.columns);
  }
};

struct Q4sKernel {
  std::string_view name;  // "avx512-vnni", "avx2", "scalar"
  bool (*runs_here)();
  void (*prepare)(std::span<const float> row, Q4sInput* out);
  // Writes the outputs of panels [first, end). REQUIRES: first_panel() <= first <= end <=
  // end_panel().
  void (*run)(const Q4sProduct& product, size_t first, size_t end);
};

// All that are compiled in, the best first; the last one runs everywhere.
std::span<const Q4sKernel> Q4sKernels();
// The first of them that runs here, or what UseQ4sKernel chose.
const Q4sKernel& BestQ4sKernel();
// For tests: this one from now on; null: the best again.
void UseQ4sKernel(const Q4sKernel* kernel);

// Adds the bias to 16 outputs of a panel, and stores those that are in `product`.
void StorePanel(const Q4sProduct& product, size_t panel, size_t row, const float* y);

}  // namespace weft::kernels
