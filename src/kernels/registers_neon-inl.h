// Registers of NEON by the names that kquant-inl.h and q4s_*-inl.h use. A file includes it once,
// between WEFT_BEGIN_TARGET and WEFT_END_TARGET (target_region.h).

using Ints = int32x4_t;
using Floats = float32x4_t;
constexpr size_t kLanes = 4;

// The same bits by other names.
inline uint32x4_t Words(Ints a) {
  return vreinterpretq_u32_s32(a);
}
inline Ints OfWords(uint32x4_t a) {
  return vreinterpretq_s32_u32(a);
}
inline uint16x8_t UnsignedHalves(Ints a) {
  return vreinterpretq_u16_s32(a);
}
inline Ints OfHalves(uint16x8_t a) {
  return vreinterpretq_s32_u16(a);
}
inline int8x16_t SignedBytes(Ints a) {
  return vreinterpretq_s8_s32(a);
}

inline Ints LoadInts(const uint8_t* at) {
  return vreinterpretq_s32_u8(vld1q_u8(at));
}
inline Floats LoadHalves(const uint8_t* at) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(at)));
}
inline void StoreInts(uint8_t* at, Ints x) {
  vst1q_u8(at, vreinterpretq_u8_s32(x));
}
inline Floats LoadFloats(const float* at) {
  return vld1q_f32(at);
}
inline void StoreFloats(float* at, Floats x) {
  vst1q_f32(at, x);
}
inline Ints AllBytes(int byte) {
  return vreinterpretq_s32_s8(vdupq_n_s8(static_cast<int8_t>(byte)));
}
inline Ints AllWords(int32_t word) {
  return vdupq_n_s32(word);
}
inline Floats AllFloats(float x) {
  return vdupq_n_f32(x);
}
inline Ints ZeroInts() {
  return vdupq_n_s32(0);
}
inline Floats ZeroFloats() {
  return vdupq_n_f32(0);
}
inline Ints And(Ints a, Ints b) {
  return vandq_s32(a, b);
}
inline Ints Or(Ints a, Ints b) {
  return vorrq_s32(a, b);
}
inline Ints AddInts(Ints a, Ints b) {
  return vaddq_s32(a, b);
}
inline Ints TimesInts(Ints a, Ints b) {
  return vmulq_s32(a, b);
}
inline Floats Times(Floats a, Floats b) {
  return vmulq_f32(a, b);
}
inline Floats ToFloats(Ints a) {
  return vcvtq_f32_s32(a);
}
inline Ints ShiftLeft(Ints words, size_t bits) {
  return vshlq_s32(words, vdupq_n_s32(static_cast<int32_t>(bits)));
}
inline Ints ShiftRight(Ints words, size_t bits) {
  return OfWords(vshlq_u32(Words(words), vdupq_n_s32(-static_cast<int32_t>(bits))));
}
inline Ints ShiftRightSigned24(Ints words) {
  return vshrq_n_s32(words, 24);
}
inline Ints NibblesDown(Ints bytes) {
  return OfHalves(vshrq_n_u16(UnsignedHalves(bytes), 4));
}
inline Ints NibblesUp(Ints bytes) {
  return OfHalves(vshlq_n_u16(UnsignedHalves(bytes), 4));
}
inline Ints TwoDown(Ints bytes) {
  return OfHalves(vshrq_n_u16(UnsignedHalves(bytes), 2));
}
inline Floats Fma(Floats a, Floats b, Floats c) {
  return vfmaq_f32(c, a, b);
}
inline Floats FmaNegative(Floats a, Floats b, Floats c) {
  return vfmsq_f32(c, a, b);
}
inline Ints WordOf(const int8_t* four) {
  int32_t word;
  std::memcpy(&word, four, 4);
  return AllWords(word);
}
inline Ints AddBytes(Ints a, Ints b) {
  return vreinterpretq_s32_s8(vaddq_s8(SignedBytes(a), SignedBytes(b)));
}
// Low halves of lanes of a, high halves of b.
inline Ints Halves(Ints a, Ints b) {
  return vbslq_s32(vdupq_n_u32(0xffff), a, b);
}
inline Ints TimesHalves(Ints a, Ints b) {
  return OfHalves(vmulq_u16(UnsignedHalves(a), UnsignedHalves(b)));
}
inline Ints HalvesUp(Ints a, int bits) {
  return OfHalves(vshlq_u16(UnsignedHalves(a), vdupq_n_s16(static_cast<int16_t>(bits))));
}
inline Ints SubtractBytes(Ints a, Ints b) {
  return vreinterpretq_s32_s8(vsubq_s8(SignedBytes(a), SignedBytes(b)));
}
inline Ints Xor(Ints a, Ints b) {
  return veorq_s32(a, b);
}
// The lowest byte of each lane in all four. REQUIRES: the others are 0.
inline Ints FirstBytes(Ints lanes) {
  return vmulq_s32(lanes, vdupq_n_s32(0x01010101));
}
// All bits of the lanes whose bit of `bits` is set, the first lane's lowest.
inline Ints LanesOf(uint32_t bits) {
  constexpr uint32_t kBits[4] = {1, 2, 4, 8};
  return OfWords(vtstq_u32(vdupq_n_u32(bits), vld1q_u32(kBits)));
}
// a, or -a in the lanes whose bit of `signs` is set, the first lane's lowest.
inline Ints Negated(Ints a, uint32_t signs) {
  return vbslq_s32(Words(LanesOf(signs)), vnegq_s32(a), a);
}
