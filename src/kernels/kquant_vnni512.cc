// q4k, q5k and q6k with AVX-512 VNNI: four levels times four bytes a lane are one instruction.
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

WEFT_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");

namespace {

using Ints = __m512i;
using Floats = __m512;
constexpr size_t kLanes = 16;
constexpr size_t kPanelsOfOneRow = 2;
constexpr size_t kTileRows = 4;

inline Ints LoadInts(const uint8_t* at) {
  return _mm512_loadu_si512(reinterpret_cast<const Ints*>(at));
}
inline Floats LoadHalves(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
inline void StoreFloats(float* at, Floats x) {
  _mm512_storeu_ps(at, x);
}
inline Ints AllBytes(int byte) {
  return _mm512_set1_epi8(static_cast<char>(byte));
}
inline Ints AllWords(int32_t word) {
  return _mm512_set1_epi32(word);
}
inline Floats AllFloats(float x) {
  return _mm512_set1_ps(x);
}
inline Ints ZeroInts() {
  return _mm512_setzero_si512();
}
inline Floats ZeroFloats() {
  return _mm512_setzero_ps();
}
inline Ints And(Ints a, Ints b) {
  return _mm512_and_si512(a, b);
}
inline Ints Or(Ints a, Ints b) {
  return _mm512_or_si512(a, b);
}
inline Ints AddInts(Ints a, Ints b) {
  return _mm512_add_epi32(a, b);
}
inline Ints TimesInts(Ints a, Ints b) {
  return _mm512_mullo_epi32(a, b);
}
inline Floats Times(Floats a, Floats b) {
  return _mm512_mul_ps(a, b);
}
inline Floats ToFloats(Ints a) {
  return _mm512_cvtepi32_ps(a);
}
inline Ints ShiftLeft(Ints words, size_t bits) {
  return _mm512_sllv_epi32(words, AllWords(static_cast<int32_t>(bits)));
}
inline Ints ShiftRight(Ints words, size_t bits) {
  return _mm512_srlv_epi32(words, AllWords(static_cast<int32_t>(bits)));
}
inline Ints ShiftRightSigned24(Ints words) {
  return _mm512_srai_epi32(words, 24);
}
inline Ints NibblesDown(Ints bytes) {
  return _mm512_srli_epi16(bytes, 4);
}
inline Ints NibblesUp(Ints bytes) {
  return _mm512_slli_epi16(bytes, 4);
}
inline Ints TwoDown(Ints bytes) {
  return _mm512_srli_epi16(bytes, 2);
}
inline Floats Fma(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Floats FmaNegative(Floats a, Floats b, Floats c) {
  return _mm512_fnmadd_ps(a, b, c);
}
inline Ints Dot(Ints sum, Ints q, const int8_t* x) {
  int32_t word;
  std::memcpy(&word, x, 4);
  return _mm512_dpbusd_epi32(sum, q, AllWords(word));
}

#include "kernels/kquant-inl.h"

}  // namespace

void RunKQuantVnni512(const PanelProduct& product, size_t first, size_t end) {
  RunKQuants(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
