// Functions for instruction sets that the processor may not have, in files of their own: nothing
// else is in such a file, so that nothing else is compiled for them.
#pragma once

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
