// Registers of AVX-512 by the names that kquant-inl.h and q4s_vnni-inl.h use. A file includes it
// once, between WEFT_BEGIN_TARGET and WEFT_END_TARGET (target_region.h).

using Ints = __m512i;
using Floats = __m512;
constexpr size_t kLanes = 16;

inline Ints LoadInts(const uint8_t* at) {
  return _mm512_loadu_si512(reinterpret_cast<const Ints*>(at));
}
inline Floats LoadHalves(const uint8_t* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
inline void StoreInts(uint8_t* at, Ints x) {
  _mm512_storeu_si512(reinterpret_cast<Ints*>(at), x);
}
inline Floats LoadFloats(const float* at) {
  return _mm512_loadu_ps(at);
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
inline Ints WordOf(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return AllWords(word);
}
inline Ints AddBytes(Ints a, Ints b) {
  return _mm512_add_epi8(a, b);
}
// Low halves of lanes of a, high halves of b.
inline Ints Halves(Ints a, Ints b) {
  return _mm512_mask_blend_epi16(0xaaaaaaaau, a, b);
}
inline Ints TimesHalves(Ints a, Ints b) {
  return _mm512_mullo_epi16(a, b);
}
inline Ints SubtractHalves(Ints a, Ints b) {
  return _mm512_sub_epi16(a, b);
}
inline Ints HalvesUp(Ints a, int bits) {
  return _mm512_slli_epi16(a, static_cast<unsigned>(bits));
}
inline Ints SubtractBytes(Ints a, Ints b) {
  return _mm512_sub_epi8(a, b);
}
inline Ints Xor(Ints a, Ints b) {
  return _mm512_xor_si512(a, b);
}
// The lowest byte of each lane in all four.
inline Ints FirstBytes(Ints lanes) {
  return _mm512_shuffle_epi8(lanes,
                             _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000));
}
// All bits of the lanes whose bit of `bits` is set, the first lane's lowest.
inline Ints LanesOf(uint32_t bits) {
  return _mm512_maskz_set1_epi32(static_cast<__mmask16>(bits), -1);
}
// a, or -a in the lanes whose bit of `signs` is set, the first lane's lowest.
inline Ints Negated(Ints a, uint32_t signs) {
  return _mm512_mask_sub_epi32(a, static_cast<__mmask16>(signs), ZeroInts(), a);
}
