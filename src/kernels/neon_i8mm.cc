// Superblocks with the matrix products of ARM (i8mm), which processors have since about 2021: two
// rows of eight bytes times two columns of eight are one instruction (smmla). A row brings its two
// planes, so that one row of activations is what an instruction takes.
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

// The bit of getauxval(AT_HWCAP2) by its number: headers of before have no name for it.
bool HasNeonI8mm() {
#if defined(__linux__)
  return HasNeonDot() && (getauxval(AT_HWCAP2) & 1ul << 13) != 0;
#elif defined(__ARM_FEATURE_MATMUL_INT8)
  return HasNeonDot();
#else
  return false;
#endif
}

WEFT_BEGIN_TARGET("arch=armv8.2-a+dotprod+i8mm");

namespace {

#include "kernels/registers_neon-inl.h"

#include "kernels/neon_sdot-inl.h"
// Behind what it needs.
#include "kernels/neon-inl.h"

constexpr size_t kTileGroups = kParts;
constexpr size_t kTilePanels = 1;
constexpr size_t kTileRows = 2;  // 2 x 8 sums of two outputs and two planes: 16 registers of 32

// Eight columns of a row, high and low.
inline int8x16_t Planes(const IntegerInput& in, size_t column) {
  return vcombine_s8(vld1_s8(in.high + column), vld1_s8(in.low + column));
}

// Sums of outputs 2 p and 2 p + 1: (H, H, L, L).
template <size_t kRows>
inline void AddTile(const PanelBytesOf* bytes, size_t words, const Floats (&scales)[kTileGroups],
                    const IntegerInput* in, size_t stride, PanelSums* sums, size_t row) {
  constexpr size_t kPairs = 2 * kTileGroups;
  Ints sum[kRows][kPairs];
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) WEFT_UNROLL
  for (size_t p = 0; p < kPairs; ++p) sum[r][p] = ZeroInts();
  for (size_t j = 0; j < words; j += 2) {
    int8x16_t w[kPairs];
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) {
      const Ints first = LoadInts(bytes->bytes[j] + g * 16);
      const Ints second = LoadInts(bytes->bytes[j + 1] + g * 16);
      w[2 * g] = SignedBytes(vzip1q_s32(first, second));
      w[2 * g + 1] = SignedBytes(vzip2q_s32(first, second));
    }
    WEFT_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
      const int8x16_t x = Planes(in[r * stride], 4 * j);
      WEFT_UNROLL
      for (size_t p = 0; p < kPairs; ++p) sum[r][p] = vmmlaq_s32(sum[r][p], x, w[p]);
    }
  }
  WEFT_UNROLL
  for (size_t r = 0; r < kRows; ++r) {
    WEFT_UNROLL
    for (size_t g = 0; g < kTileGroups; ++g) {
      const Ints a = sum[r][2 * g], b = sum[r][2 * g + 1];
      const Ints high = vcombine_s32(vget_low_s32(a), vget_low_s32(b));
      const Ints low = vcombine_s32(vget_high_s32(a), vget_high_s32(b));
      float* y = sums->y[row + r] + g * kLanes;
      const Ints both = AddInts(ShiftLeft(high, 8), low);
      StoreFloats(y, AddScaled(both, scales[g], in[r * stride].scale, LoadFloats(y)));
    }
  }
}

#include "kernels/q4s_many-inl.h"

}  // namespace

void RunNeonI8mm(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return kquants::Run(product, first, end);
  RunQ4s(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __aarch64__
