// q4k, q5k and q6k with AVX2: levels times bytes in pairs, at most 63 * 128 * 2 = 16,128, whose
// sums of four columns are lanes.
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

WEFT_BEGIN_TARGET("avx2,fma,f16c");

namespace {

#include "kernels/registers_256-inl.h"

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kTileRows = 2;

inline Ints Dot(Ints sum, Ints q, const int8_t* x) {
  const Ints pairs = _mm256_maddubs_epi16(q, WordOf(x));
  return AddInts(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "kernels/kquant-inl.h"

}  // namespace

void RunKQuantAvx2(const PanelProduct& product, size_t first, size_t end) {
  RunKQuants(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
