// Superblocks with AVX2: eight outputs a register, bytes times bytes in pairs (pairs-inl.h).
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"
#include "kernels/q4s_panels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

// Every processor with AVX2 converts f16, too (which clang 14 has no name for).
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

WEFT_BEGIN_TARGET("avx2,fma,f16c");

namespace {

#include "kernels/registers_256-inl.h"

// ---- rows

// 1.5 * 2^23 has no place for a fraction: the sum is rounded once, to the nearest.
inline Ints Rounded(const float* at, float factor) {
  const Floats sum = Fma(LoadFloats(at), AllFloats(factor), AllFloats(0x1.8p23f));
  return SubtractInts(_mm256_castps_si256(sum), AllWords(0x4b400000));
}
inline Ints BytesOf(Ints a, Ints b, Ints c, Ints d) {
  const Ints packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
inline Ints MostInts(Ints a, Ints b) {
  return _mm256_max_epi32(a, b);
}
inline Ints BytePairs(Ints q, Ints x) {
  return _mm256_maddubs_epi16(q, x);
}
inline Ints HalfPairs(Ints a, Ints b) {
  return _mm256_madd_epi16(a, b);
}
inline void SumOf16s(Ints bytes, int32_t (&sums)[2]) {
  const Ints fours = HalfPairs(BytePairs(AllBytes(1), bytes), AllWords(0x00010001));
  const Ints twos = AddInts(fours, _mm256_shuffle_epi32(fours, 0x4e));
  const Ints all = AddInts(twos, _mm256_shuffle_epi32(twos, 0xb1));
  sums[0] = _mm256_extract_epi32(all, 0);
  sums[1] = _mm256_extract_epi32(all, 4);
}

#include "kernels/prepare-inl.h"

// ---- products

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kPanelsOfFewRows = 1;
constexpr size_t kTileRows = 4;  // 4 x 2 sums of 16 registers
constexpr size_t kManyRows = 5;  // from which wider weights are worth making

#include "kernels/pairs-inl.h"

}  // namespace

void PrepareIntegersAvx2(std::span<const float> row, IntegerInput* out) {
  PrepareRow(row, out);
}

void RunAvx2(const PanelProduct& product, size_t first, size_t end) {
  RunPanels(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
