// Superblocks with NEON, as every 64-bit ARM processor has it.
#include "kernels/kquant_panels.h"
#include "kernels/panel_neon.h"
#include "kernels/q4s_panels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstring>

namespace weft::kernels {

namespace {

#include "kernels/registers_neon-inl.h"

// Sums of two products are at most 2 * 120 * 128 = 30,720.
inline Ints Dot(Ints sum, Ints w, const int8_t* x) {
  const int8x16_t a = SignedBytes(w), b = SignedBytes(WordOf(x));
  const int16x8_t first = vmull_s8(vget_low_s8(a), vget_low_s8(b));
  return vpadalq_s16(sum, vpaddq_s16(first, vmull_high_s8(a, b)));
}

#include "kernels/neon-inl.h"
#include "kernels/neon_many-inl.h"

}  // namespace

void RunNeon(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return kquants::Run(product, first, end);
  RunQ4s(product, first, end);
}

}  // namespace weft::kernels

#endif  // __aarch64__
