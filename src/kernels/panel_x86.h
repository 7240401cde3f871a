// Kernels of panels for processors of the x86 family (target_region.h). Internal to src/kernels:
// panel_matmul.h has the table.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <span>

#include "kernels/panel_product.h"
#include "kernels/target_region.h"

namespace weft::kernels {

bool HasAvx2();     // with FMA and F16C
bool HasVnni512();  // with AVX-512 F, BW, VL, DQ and VNNI
bool HasVnni256();  // AVX-VNNI, with what HasAvx2 asks for
bool HasAmx();      // AMX for bytes, beside HasVnni512; asks the kernel for its state
bool HasSsse3();
void PrepareIntegersAvx2(std::span<const float> row, IntegerInput* out);
void PrepareIntegersSsse3(std::span<const float> row, IntegerInput* out);
void RunAvx2(const PanelProduct& product, size_t first, size_t end);
void RunVnni512(const PanelProduct& product, size_t first, size_t end);
void RunVnni256(const PanelProduct& product, size_t first, size_t end);
void RunAmx(const PanelProduct& product, size_t first, size_t end);
void RunSsse3(const PanelProduct& product, size_t first, size_t end);

}  // namespace weft::kernels

#endif  // __x86_64__
