// Superblocks with AVX-512 VNNI: sixteen outputs a register.
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"
#include "kernels/q4s_panels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

bool HasVnni512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

WEFT_BEGIN_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");

namespace {

#include "kernels/registers_512-inl.h"

inline Ints Dot(Ints sum, Ints q, const int8_t* x) {
  return _mm512_dpbusd_epi32(sum, q, WordOf(x));
}

namespace q4s {

constexpr size_t kPanelsOfOneRow = 4;
constexpr size_t kPanelsOfFewRows = 2;
constexpr size_t kTilePanels = 2;
constexpr size_t kTileRows = 6;  // 6 x 2 outputs, two sums each: 24 registers
constexpr size_t kManyRows = 9;  // from which bytes in memory are worth making

// GCC 12 broadcasts by an instruction of its own.
inline Ints DotInPlace(Ints sum, Ints w, const int8_t* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum)
      : "v"(w), "m"(*reinterpret_cast<const int8_t(*)[4]>(x)));
  return sum;
}
inline Ints PairDot(Ints sum, Ints a, Ints b) {
  return _mm512_dpwssd_epi32(sum, a, b);
}
inline Ints ZeroToFifteen() {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
// The pairs of |m| = 0 to 15.
inline Ints PairTable(int sign) {
  const Ints pairs = Or(ZeroToFifteen(), ShiftLeft(ZeroToFifteen(), 24));
  return sign > 0 ? pairs : SubtractHalves(ZeroInts(), pairs);
}
// The permutation looks at the low four bits alone.
inline Ints Pairs(Ints magnitudes, size_t i, uint32_t signs) {
  const Ints magnitude = ShiftRight(magnitudes, 4 * i);
  return _mm512_mask_permutexvar_epi32(_mm512_permutexvar_epi32(magnitude, PairTable(1)),
                                       static_cast<__mmask16>(signs), magnitude, PairTable(-1));
}

#include "kernels/q4s_vnni-inl.h"

inline Ints NibblesOfWordsDown(Ints words) {
  return _mm512_srli_epi32(words, 4);
}
// What |m| = 0 to 15 decides. A permutation looks at the low four bits of a lane alone.
inline Ints ByteTable(int first, int step) {
  const Ints times = TimesInts(ZeroToFifteen(), AllWords(step * 0x01010101));
  return SubtractBytes(AllBytes(first), times);
}
inline Ints HalvesTable() {
  return Or(ZeroToFifteen(), ShiftLeft(ZeroToFifteen(), 16));
}
// SignedLevels for nibbles of both kinds in fewer instructions. High nibbles stay where they are,
// and are 16 times too large there. Their products with 4,096 |m| are 65,536 times what is wanted,
// and the upper halves are taken.
struct BatchLevels {
  Ints flip;           // all bits of a lane whose m is negative
  Ints times, scaled;  // |m| and 4,096 |m| in both halves of a lane
  Ints zero;           // as SignedLevels'

  BatchLevels(Ints magnitudes, uint16_t signs)
      : flip(LanesOf(signs)),
        times(_mm512_permutexvar_epi32(magnitudes, HalvesTable())),
        scaled(HalvesUp(times, 12)),
        zero(_mm512_mask_permutexvar_epi32(
            _mm512_permutexvar_epi32(magnitudes, ByteTable(kByteZero, 8)), signs, magnitudes,
            ByteTable(kByteZero, 7))) {}
  Ints Low(Ints nibbles) const { return AddBytes(TimesHalves(Levels(nibbles, 15), times), zero); }
  Ints High(Ints nibbles) const {
    return AddBytes(_mm512_mulhi_epu16(Levels(nibbles, 0xf0), scaled), zero);
  }
  // (nibbles ^ flip) & mask. Compilers would share the first half and need three instructions.
  Ints Levels(Ints nibbles, int mask) const {
    return _mm512_ternarylogic_epi32(nibbles, flip, AllBytes(mask), 0x28);
  }
};

// Behind what it needs.
#include "kernels/q4s_batch-inl.h"

}  // namespace q4s

namespace kquants {

constexpr size_t kPanelsOfOneRow = 2;
constexpr size_t kTileRows = 8;  // two sums each, and eight registers of levels

#include "kernels/kquant-inl.h"

}  // namespace kquants
}  // namespace

void RunVnni512(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return kquants::RunKQuants(product, first, end);
  if (product.rows >= q4s::kLeastBatch && product.rows <= q4s::kMostBatch)
    return q4s::RunBatch<q4s::kMostBatch>(product, first, end);
  q4s::RunQ4s(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
