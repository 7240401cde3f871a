// Kernels of panels for processors of the x86 family are in files of their own. Their functions are
// compiled for instructions that the processor may not have, so nothing else is in them. Internal
// to src/kernels: panel_matmul.h has the table.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <span>

#include "kernels/panel_product.h"

// Functions between these two are compiled for the instruction sets named. Arrays of registers are
// registers only where the loops over them are unrolled.
#if defined(__clang__)
#define WEFT_UNROLL _Pragma("clang loop unroll(full)")
#define WEFT_PRAGMA(text) _Pragma(#text)
#define WEFT_BEGIN_TARGET(sets)                                                         \
  WEFT_PRAGMA(clang attribute push(__attribute__((target(sets))), apply_to = function)) \
  static_assert(true)
#define WEFT_END_TARGET _Pragma("clang attribute pop") static_assert(true)
#else
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#define WEFT_PRAGMA(text) _Pragma(#text)
#define WEFT_BEGIN_TARGET(sets) \
  _Pragma("GCC push_options") WEFT_PRAGMA(GCC target(sets)) static_assert(true)
#define WEFT_END_TARGET _Pragma("GCC pop_options") static_assert(true)
#endif

namespace weft::kernels {

bool HasAvx2();     // with FMA and F16C
bool HasVnni512();  // with AVX-512 F, BW, VL, DQ and VNNI
bool HasVnni256();  // AVX-VNNI, with what HasAvx2 asks for
void PrepareIntegersAvx2(std::span<const float> row, IntegerInput* out);
void RunQ4sAvx2(const PanelProduct& product, size_t first, size_t end);
void RunKQuantAvx2(const PanelProduct& product, size_t first, size_t end);
void RunVnni512(const PanelProduct& product, size_t first, size_t end);
void RunVnni256(const PanelProduct& product, size_t first, size_t end);

}  // namespace weft::kernels

#endif  // __x86_64__
