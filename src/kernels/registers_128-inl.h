// Registers of SSSE3 by the names that pairs-inl.h and prepare-inl.h use. A file includes it once,
// between WEFT_BEGIN_TARGET and WEFT_END_TARGET (target_region.h).
//
// What processors of that time lack is made of what they have: f16, and the single rounding of a
// fused multiplication.

using Ints = __m128i;
using Floats = __m128;
constexpr size_t kLanes = 4;

inline Ints LoadInts(const uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const Ints*>(at));
}
inline Floats LoadFloats(const float* at) {
  return _mm_loadu_ps(at);
}
inline void StoreFloats(float* at, Floats x) {
  _mm_storeu_ps(at, x);
}
inline Ints AllBytes(int byte) {
  return _mm_set1_epi8(static_cast<char>(byte));
}
inline Ints AllWords(int32_t word) {
  return _mm_set1_epi32(word);
}
inline Floats AllFloats(float x) {
  return _mm_set1_ps(x);
}
inline Ints ZeroInts() {
  return _mm_setzero_si128();
}
inline Floats ZeroFloats() {
  return _mm_setzero_ps();
}
inline Ints And(Ints a, Ints b) {
  return _mm_and_si128(a, b);
}
inline Ints Or(Ints a, Ints b) {
  return _mm_or_si128(a, b);
}
inline Ints AddInts(Ints a, Ints b) {
  return _mm_add_epi32(a, b);
}
// The low 32 bits are the same whatever the signs.
inline Ints TimesInts(Ints a, Ints b) {
  const Ints even = _mm_mul_epu32(a, b);
  const Ints odd = _mm_mul_epu32(_mm_srli_si128(a, 4), _mm_srli_si128(b, 4));
  return _mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x08), _mm_shuffle_epi32(odd, 0x08));
}
inline Floats Times(Floats a, Floats b) {
  return _mm_mul_ps(a, b);
}
inline Floats ToFloats(Ints a) {
  return _mm_cvtepi32_ps(a);
}
inline Ints ShiftLeft(Ints words, size_t bits) {
  return _mm_sll_epi32(words, _mm_cvtsi64_si128(static_cast<int64_t>(bits)));
}
inline Ints ShiftRight(Ints words, size_t bits) {
  return _mm_srl_epi32(words, _mm_cvtsi64_si128(static_cast<int64_t>(bits)));
}
inline Ints ShiftRightSigned24(Ints words) {
  return _mm_srai_epi32(words, 24);
}
inline Ints NibblesDown(Ints bytes) {
  return _mm_srli_epi16(bytes, 4);
}
inline Ints NibblesUp(Ints bytes) {
  return _mm_slli_epi16(bytes, 4);
}
inline Ints TwoDown(Ints bytes) {
  return _mm_srli_epi16(bytes, 2);
}
// Four f16 that are finite. With their exponent and fraction in place they are 2^112 too small.
inline Floats LoadHalves(const uint8_t* at) {
  const Ints halves =
      _mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const Ints*>(at)), ZeroInts());
  const Ints magnitude = ShiftLeft(And(halves, AllWords(0x7fff)), 13);
  const Floats value = Times(_mm_castsi128_ps(magnitude), AllFloats(0x1p112f));
  const Ints sign = ShiftLeft(And(halves, AllWords(0x8000)), 16);
  return _mm_or_ps(value, _mm_castsi128_ps(sign));
}
// a * b + c rounded once, of the lower two lanes. The product is exact in double precision. Its sum
// with c is rounded to odd, after which rounding to single precision is as if it were the first:
// where the sum is inexact and its last bit even, the odd neighbour on the side of what was lost.
inline __m128d FmaOdd(__m128d a, __m128d b, __m128d c) {
  const __m128d product = _mm_mul_pd(a, b);
  const __m128d sum = _mm_add_pd(product, c);
  const __m128d from_c = _mm_sub_pd(sum, product);
  const __m128d lost =
      _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, from_c)), _mm_sub_pd(c, from_c));
  // Ordered: where the sum is no finite number, nothing is lost.
  const __m128d zero = _mm_setzero_pd();
  const __m128d is_lost = _mm_or_pd(_mm_cmplt_pd(lost, zero), _mm_cmpgt_pd(lost, zero));
  const Ints bits = _mm_castpd_si128(sum), one = _mm_set_epi32(0, 1, 0, 1);
  const Ints is_even = _mm_andnot_si128(bits, And(_mm_castpd_si128(is_lost), one));
  // 1 away from zero, or -1.
  const Ints other_signs = _mm_srli_epi64(_mm_castpd_si128(_mm_xor_pd(lost, sum)), 63);
  const Ints back = _mm_and_si128(_mm_slli_epi64(other_signs, 1), _mm_slli_epi64(is_even, 1));
  return _mm_castsi128_pd(_mm_sub_epi64(_mm_add_epi64(bits, is_even), back));
}
inline Floats Fma(Floats a, Floats b, Floats c) {
  const __m128d low = FmaOdd(_mm_cvtps_pd(a), _mm_cvtps_pd(b), _mm_cvtps_pd(c));
  const __m128d high = FmaOdd(_mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b)),
                              _mm_cvtps_pd(_mm_movehl_ps(c, c)));
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
inline Floats FmaNegative(Floats a, Floats b, Floats c) {
  return Fma(_mm_xor_ps(a, AllFloats(-0.0f)), b, c);
}
inline void StoreInts(uint8_t* at, Ints x) {
  _mm_storeu_si128(reinterpret_cast<Ints*>(at), x);
}
inline Ints SubtractInts(Ints a, Ints b) {
  return _mm_sub_epi32(a, b);
}
inline Ints ShiftRightSigned8(Ints words) {
  return _mm_srai_epi32(words, 8);
}
inline Ints AddHalves(Ints a, Ints b) {
  return _mm_add_epi16(a, b);
}
inline Ints SubtractHalves(Ints a, Ints b) {
  return _mm_sub_epi16(a, b);
}
inline Ints TimesHalves(Ints a, Ints b) {
  return _mm_mullo_epi16(a, b);
}
inline Ints HalvesUp(Ints a, int bits) {
  return _mm_slli_epi16(a, bits);
}
inline Ints HalvesDownSigned8(Ints a) {
  return _mm_srai_epi16(a, 8);
}
inline Ints HalvesDown(Ints a, int bits) {
  return _mm_srli_epi16(a, bits);
}
inline Ints WordOf(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return AllWords(word);
}
// Low halves of lanes of a, high halves of b.
inline Ints Halves(Ints a, Ints b) {
  const Ints low = AllWords(0xffff);
  return Or(And(a, low), _mm_andnot_si128(low, b));
}
// a, or -a in the lanes whose bit of `signs` is set, the first lane's lowest.
inline Ints Negated(Ints a, uint32_t signs) {
  const Ints bit = _mm_setr_epi32(1, 2, 4, 8);
  const Ints is_negative = _mm_cmpeq_epi32(And(AllWords(static_cast<int32_t>(signs)), bit), bit);
  return _mm_sub_epi32(_mm_xor_si128(a, is_negative), is_negative);
}
