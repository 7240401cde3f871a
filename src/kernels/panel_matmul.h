// Products with panels, one kernel an instruction set. All have the bits of the scalar rules
// (integer_rows.h), whatever the number of rows and wherever outputs are cut.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "kernels/panel_product.h"

namespace weft::kernels {

struct PanelKernel {
  std::string_view
      name;  // "amx", "avx512-vnni", "avx-vnni", "avx2", "ssse3", "neon", "scalar", ...
  bool (*runs_here)();
  void (*prepare)(std::span<const float> row, IntegerInput* out);
  // Writes the outputs of panels [first, end). REQUIRES: first_panel() <= first <= end <=
  // end_panel().
  void (*run)(const PanelProduct& product, size_t first, size_t end);
};

// All that are compiled in, the best first; the last one runs everywhere.
std::span<const PanelKernel> PanelKernels();
// The first of them that runs here.
const PanelKernel& BestPanelKernel();
// What products run on: the best, unless another one was forced.
const PanelKernel& UsedPanelKernel();
// Forces a kernel for the whole process. kInvalidArgument: there is none of that name;
// kUnsupported: it does not run here. Thread-safe.
Status UsePanelKernel(std::string_view name);

}  // namespace weft::kernels
