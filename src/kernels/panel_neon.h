// Kernels of panels for 64-bit ARM (target_region.h). Internal to src/kernels: panel_matmul.h has
// the table.
#pragma once

#if defined(__aarch64__)

#include <cstddef>
#include <span>

#include "kernels/panel_product.h"
#include "kernels/target_region.h"

namespace weft::kernels {

bool HasNeonDot();   // sdot
bool HasNeonI8mm();  // smmla, with what HasNeonDot asks for
void RunNeon(const PanelProduct& product, size_t first, size_t end);
void RunNeonDot(const PanelProduct& product, size_t first, size_t end);
void RunNeonI8mm(const PanelProduct& product, size_t first, size_t end);

}  // namespace weft::kernels

#endif  // __aarch64__
