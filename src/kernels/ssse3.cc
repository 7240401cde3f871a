// Superblocks with SSSE3, for processors of the x86 family without AVX2: four outputs a register,
// and bytes times bytes in pairs (pmaddubsw), as q4s_avx2.cc has it.
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

// Whole numbers of four columns. The product is exact in double precision, and its rounding to a
// whole number that of the rule.
inline Ints Rounded(const float* at, __m128d factor) {
  const Floats x = LoadFloats(at);
  const Ints low = _mm_cvtpd_epi32(_mm_mul_pd(_mm_cvtps_pd(x), factor));
  const Ints high = _mm_cvtpd_epi32(_mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), factor));
  return _mm_unpacklo_epi64(low, high);
}
inline int32_t SumOf(Ints bytes) {
  const Ints pairs = _mm_maddubs_epi16(AllBytes(1), bytes);
  const Ints fours = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
  const Ints twos = AddInts(fours, _mm_shuffle_epi32(fours, 0x4e));
  return _mm_cvtsi128_si32(AddInts(twos, _mm_shuffle_epi32(twos, 0xb1)));
}

// Columns 16 i to 16 i + 15.
inline void PrepareColumns(const float* row, __m128d factor, size_t i, IntegerInput* out) {
  Ints high[4], low[4];
  WEFT_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    const Ints x = Rounded(row + 16 * i + 4 * j, factor);
    high[j] = _mm_srai_epi32(AddInts(x, AllWords(128)), 8);
    low[j] = _mm_sub_epi32(x, ShiftLeft(high[j], 8));
  }
  const Ints highs =
      _mm_packs_epi16(_mm_packs_epi32(high[0], high[1]), _mm_packs_epi32(high[2], high[3]));
  const Ints lows =
      _mm_packs_epi16(_mm_packs_epi32(low[0], low[1]), _mm_packs_epi32(low[2], low[3]));
  _mm_storeu_si128(reinterpret_cast<Ints*>(out->high + 16 * i), highs);
  _mm_storeu_si128(reinterpret_cast<Ints*>(out->low + 16 * i), lows);
  const int32_t high_sum = SumOf(highs), low_sum = SumOf(lows);
  out->high_zero[i] = -8 * high_sum;
  out->low_zero[i] = -8 * low_sum;
  out->byte_zero -= 128 * (256 * high_sum + low_sum);
}

inline float PowerOfTwo(uint32_t biased_exponent) {
  const uint32_t bits = biased_exponent << 23;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void PrepareSuperblock(const float* row, IntegerInput* out) {
  uint32_t largest = 0;
  for (size_t i = 0; i < 256; ++i) {
    uint32_t bits;
    std::memcpy(&bits, row + i, 4);
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  uint32_t exponent = largest >> 23;
  exponent = exponent < kLeastExponent ? kLeastExponent : exponent;
  exponent = exponent > kMostExponent ? kMostExponent : exponent;
  std::memset(static_cast<void*>(out), 0, offsetof(IntegerInput, scale));
  if (largest >= 0x7f800000u) {
    out->scale = __builtin_nanf("");
    return;
  }
  out->scale = PowerOfTwo(exponent - 14) * kIntegerInverseHeadroom;
  const float factor = PowerOfTwo(268 - exponent) * kIntegerHeadroom;
  for (size_t i = 0; i < 16; ++i)
    PrepareColumns(row, _mm_set1_pd(static_cast<double>(factor)), i, out);
  AddSums(out);
}

// ---- products

namespace q4s {

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kPanelsOfFewRows = 1;

#include "kernels/q4s_parts-inl.h"

// m in both halves of a lane.
inline Ints Pairs(Ints magnitudes, size_t i, uint32_t signs) {
  const Ints m = Negated(And(ShiftRight(magnitudes, 4 * i), AllWords(15)), signs);
  return Halves(m, ShiftLeft(m, 16));
}
// 16 columns of bytes in 16-bit halves; `zero` is -8 times their sum.
inline Ints DotOf16(const Ints (&q)[4], const int8_t* x, int32_t zero) {
  const Ints first =
      _mm_add_epi16(_mm_maddubs_epi16(q[0], WordOf(x)), _mm_maddubs_epi16(q[1], WordOf(x + 4)));
  const Ints second = _mm_add_epi16(_mm_maddubs_epi16(q[2], WordOf(x + 8)),
                                    _mm_maddubs_epi16(q[3], WordOf(x + 12)));
  return _mm_add_epi16(AllWords(zero & 0xffff), _mm_add_epi16(first, second));
}
// The bounds of q4s_avx2.cc hold here, too.
inline Ints AddColumns(const Ints (&q)[4], const IntegerInput& in, size_t i, Ints m, Ints sum) {
  const Ints h = DotOf16(q, in.high + 16 * i, in.high_zero[i]);
  const Ints l = DotOf16(q, in.low + 16 * i, in.low_zero[i]);
  return AddInts(sum, AddInts(_mm_madd_epi16(h, _mm_slli_epi16(m, 8)), _mm_madd_epi16(l, m)));
}

#include "kernels/q4s_few-inl.h"

}  // namespace q4s

namespace kquants {

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kTileRows = 2;

// At most 63 * 128 * 2 a pair.
inline Ints Dot(Ints sum, Ints q, const int8_t* x) {
  const Ints pairs = _mm_maddubs_epi16(q, WordOf(x));
  return AddInts(sum, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}

#include "kernels/kquant-inl.h"

}  // namespace kquants
}  // namespace

void PrepareIntegersSsse3(std::span<const float> row, IntegerInput* out) {
  size_t first = 0;
  for (; first + 256 <= row.size(); first += 256) PrepareSuperblock(row.data() + first, out++);
  if (first == row.size()) return;
  float padded[256] = {};
  std::memcpy(padded, row.data() + first, (row.size() - first) * sizeof(float));
  PrepareSuperblock(padded, out);
}

void RunSsse3(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return kquants::RunKQuants(product, first, end);
  q4s::RunSome(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
