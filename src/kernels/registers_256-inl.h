// Registers of AVX2 by the names that kquant-inl.h and q4s_vnni-inl.h use. A file includes it once,
// between WEFT_BEGIN_TARGET and WEFT_END_TARGET (target_region.h).

using Ints = __m256i;
using Floats = __m256;
constexpr size_t kLanes = 8;

inline Ints LoadInts(const uint8_t* at) {
  return _mm256_loadu_si256(reinterpret_cast<const Ints*>(at));
}
inline Floats LoadHalves(const uint8_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
inline void StoreInts(uint8_t* at, Ints x) {
  _mm256_storeu_si256(reinterpret_cast<Ints*>(at), x);
}
inline Floats LoadFloats(const float* at) {
  return _mm256_loadu_ps(at);
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
inline Ints WordOf(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return AllWords(word);
}
inline Ints AddBytes(Ints a, Ints b) {
  return _mm256_add_epi8(a, b);
}
// Low halves of lanes of a, high halves of b.
inline Ints Halves(Ints a, Ints b) {
  return _mm256_blend_epi16(a, b, 0xaa);
}
inline Ints TimesHalves(Ints a, Ints b) {
  return _mm256_mullo_epi16(a, b);
}
inline Ints SubtractInts(Ints a, Ints b) {
  return _mm256_sub_epi32(a, b);
}
inline Ints ShiftRightSigned8(Ints words) {
  return _mm256_srai_epi32(words, 8);
}
inline Ints AddHalves(Ints a, Ints b) {
  return _mm256_add_epi16(a, b);
}
inline Ints SubtractHalves(Ints a, Ints b) {
  return _mm256_sub_epi16(a, b);
}
inline Ints HalvesUp(Ints a, int bits) {
  return _mm256_slli_epi16(a, bits);
}
inline Ints HalvesDownSigned8(Ints a) {
  return _mm256_srai_epi16(a, 8);
}
inline Ints HalvesDown(Ints a, int bits) {
  return _mm256_srli_epi16(a, bits);
}
inline Ints SubtractBytes(Ints a, Ints b) {
  return _mm256_sub_epi8(a, b);
}
inline Ints Xor(Ints a, Ints b) {
  return _mm256_xor_si256(a, b);
}
// The lowest byte of each lane in all four.
inline Ints FirstBytes(Ints lanes) {
  return _mm256_shuffle_epi8(lanes, _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0,
                                                      0x04040404, 0x08080808, 0x0c0c0c0c));
}
// All bits of the lanes whose bit of `bits` is set, the first lane's lowest.
inline Ints LanesOf(uint32_t bits) {
  const Ints bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(And(AllWords(static_cast<int32_t>(bits)), bit), bit);
}
// a, or -a in the lanes whose bit of `signs` is set, the first lane's lowest.
inline Ints Negated(Ints a, uint32_t signs) {
  const Ints is_negative = LanesOf(signs);
  return _mm256_sub_epi32(_mm256_xor_si256(a, is_negative), is_negative);
}
