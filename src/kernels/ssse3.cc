// Superblocks with SSSE3, for processors of the x86 family without AVX2: four outputs a register,
// bytes times bytes in pairs (pairs-inl.h).
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"
#include "kernels/q4s_panels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

bool HasSsse3() {
  return __builtin_cpu_supports("ssse3") != 0;
}

WEFT_BEGIN_TARGET("ssse3");

namespace {

#include "kernels/registers_128-inl.h"

// ---- rows

// The product is exact in double precision, and its rounding to a whole number that of the rule.
inline Ints Rounded(const float* at, float factor) {
  const Floats x = LoadFloats(at);
  const __m128d wide = _mm_set1_pd(static_cast<double>(factor));
  const Ints low = _mm_cvtpd_epi32(_mm_mul_pd(_mm_cvtps_pd(x), wide));
  const Ints high = _mm_cvtpd_epi32(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), wide));
  return _mm_unpacklo_epi64(low, high);
}
inline Ints BytesOf(Ints a, Ints b, Ints c, Ints d) {
  return _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
}
inline Ints MostInts(Ints a, Ints b) {
  const Ints is_more = _mm_cmpgt_epi32(a, b);
  return Or(And(is_more, a), _mm_andnot_si128(is_more, b));
}
inline Ints BytePairs(Ints q, Ints x) {
  return _mm_maddubs_epi16(q, x);
}
inline Ints HalfPairs(Ints a, Ints b) {
  return _mm_madd_epi16(a, b);
}
inline void SumOf16s(Ints bytes, int32_t (&sums)[1]) {
  const Ints fours = HalfPairs(BytePairs(AllBytes(1), bytes), AllWords(0x00010001));
  const Ints twos = AddInts(fours, _mm_shuffle_epi32(fours, 0x4e));
  sums[0] = _mm_cvtsi128_si32(AddInts(twos, _mm_shuffle_epi32(twos, 0xb1)));
}

#include "kernels/prepare-inl.h"

// ---- products

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kPanelsOfFewRows = 1;
constexpr size_t kTileRows = 2;  // 2 x 4 sums of 16 registers
constexpr size_t kManyRows = 8;  // from which wider weights are worth making

#include "kernels/pairs-inl.h"

}  // namespace

void PrepareIntegersSsse3(std::span<const float> row, IntegerInput* out) {
  PrepareRow(row, out);
}

void RunSsse3(const PanelProduct& product, size_t first, size_t end) {
  RunPanels(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
