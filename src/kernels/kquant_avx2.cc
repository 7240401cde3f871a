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

using Ints = __m256i;
using Floats = __m256;
constexpr size_t kLanes = 8;
constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kTileRows = 2;

inline Ints LoadInts(const uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const Ints*>(at));
}
inline Floats LoadHalves(const uint8_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
inline void StoreFloats(float* at, Floats x) {
  _mm256_storeu_ps(at, x);
}
inline Ints AllBytes(int byte) {
  return _mm256_set1_epi8(static_cast<char>(byte));
}
inline Ints AllWords(int32_t word) {
  return _mm256_set1_epi32(word);
}
inline Floats AllFloats(float x) {
  return _mm256_set1_ps(x);
}
inline Ints ZeroInts() {
  return _mm256_setzero_si256();
}
inline Floats ZeroFloats() {
  return _mm256_setzero_ps();
}
inline Ints And(Ints a, Ints b) {
  return _mm256_and_si256(a, b);
}
inline Ints Or(Ints a, Ints b) {
  return _mm256_or_si256(a, b);
}
inline Ints AddInts(Ints a, Ints b) {
  return _mm256_add_epi32(a, b);
}
inline Ints TimesInts(Ints a, Ints b) {
  return _mm256_mullo_epi32(a, b);
}
inline Floats Times(Floats a, Floats b) {
  return _mm256_mul_ps(a, b);
}
inline Floats ToFloats(Ints a) {
  return _mm256_cvtepi32_ps(a);
}
inline Ints ShiftLeft(Ints words, size_t bits) {
  return _mm256_sllv_epi32(words, AllWords(static_cast<int32_t>(bits)));
}
inline Ints ShiftRight(Ints words, size_t bits) {
  return _mm256_srlv_epi32(words, AllWords(static_cast<int32_t>(bits)));
}
inline Ints ShiftRightSigned24(Ints words) {
  return _mm256_srai_epi32(words, 24);
}
inline Ints NibblesDown(Ints bytes) {
  return _mm256_srli_epi16(bytes, 4);
}
inline Ints NibblesUp(Ints bytes) {
  return _mm256_slli_epi16(bytes, 4);
}
inline Ints TwoDown(Ints bytes) {
  return _mm256_srli_epi16(bytes, 2);
}
inline Floats Fma(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Floats FmaNegative(Floats a, Floats b, Floats c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline Ints Dot(Ints sum, Ints q, const int8_t* x) {
  int32_t word;
  std::memcpy(&word, x, 4);
  const Ints pairs = _mm256_maddubs_epi16(q, AllWords(word));
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
