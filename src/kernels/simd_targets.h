// Which instruction sets the *_simd.cc files are compiled for. Include before any Highway header.
// The lowest on x86 is SSE4 (every 64-bit processor since 2008; kernel_set.cc falls back to the
// scalar kernels on older ones). Left out: AVX3_DL (nothing here uses what it adds) and the
// scalable vectors of SVE and RVV (accumulators are kept in arrays, which need a size known when
// compiling; NEON serves those machines).
#pragma once

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
