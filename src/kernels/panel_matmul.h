// Products with panels of q4s, one kernel an instruction set. All have the bits of Q4sDot
// (q4s_rows.h), whatever the number of rows and wherever outputs are cut.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/q4s_product.h"

namespace weft::kernels {

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
// The first of them that runs here.
const Q4sKernel& BestQ4sKernel();

}  // namespace weft::kernels
