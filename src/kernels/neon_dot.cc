// Superblocks with the dot products of ARM (sdot), which processors have since about 2018.
#include "kernels/kquant_panels.h"
#include "kernels/panel_neon.h"
#include "kernels/q4s_panels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstring>

#if defined(__linux__)
#include <sys/auxv.h>
#endif

namespace weft::kernels {

// The bit of getauxval(AT_HWCAP) by its number: headers of before have no name for it.
bool HasNeonDot() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & 1ul << 20) != 0;
#elif defined(__ARM_FEATURE_DOTPROD)
  return true;
#else
  return false;
#endif
}

WEFT_BEGIN_TARGET("arch=armv8.2-a+dotprod");

namespace {

#include "kernels/registers_neon-inl.h"

#include "kernels/neon_sdot-inl.h"
// Behind what it needs.
#include "kernels/neon-inl.h"
#include "kernels/neon_many-inl.h"

}  // namespace

void RunNeonDot(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return kquants::Run(product, first, end);
  RunQ4s(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __aarch64__
