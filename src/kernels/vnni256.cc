// Superblocks with AVX-VNNI, as processors for laptops and desktops have it: eight outputs a
// register.
#include "kernels/kquant_panels.h"
#include "kernels/panel_x86.h"
#include "kernels/q4s_panels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <cstring>

namespace weft::kernels {

// Leaf 7, subleaf 1, bit 4 of EAX, which compilers of before have no name for.
bool HasVnni256() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return HasAvx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1u << 4) != 0;
}

WEFT_BEGIN_TARGET("avx2,avxvnni,fma,f16c");

namespace {

#include "kernels/registers_256-inl.h"

inline Ints Dot(Ints sum, Ints q, const int8_t* x) {
  return _mm256_dpbusd_avx_epi32(sum, q, WordOf(x));
}

namespace q4s {

constexpr size_t kPanelsOfOneRow = 2;
constexpr size_t kPanelsOfFewRows = 1;
constexpr size_t kTilePanels = 1;
constexpr size_t kTileRows = 3;  // 3 x 2 outputs, two sums each: 12 registers of 16
constexpr size_t kManyRows = 9;  // from which bytes are worth making

// As assembly, so that the compiler adds in place: of twelve sums it keeps copies else, and spills
// them.
inline Ints DotInPlace(Ints sum, Ints w, const int8_t* x) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(WordOf(x)));
  return sum;
}
inline Ints PairDot(Ints sum, Ints a, Ints b) {
  return _mm256_dpwssd_avx_epi32(sum, a, b);
}
inline Ints Pairs(Ints magnitudes, size_t i, uint32_t signs) {
  const Ints m = Negated(And(ShiftRight(magnitudes, 4 * i), AllWords(15)), signs);
  return Halves(m, ShiftLeft(m, 24));
}

#include "kernels/q4s_vnni-inl.h"

}  // namespace q4s

namespace kquants {

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kTileRows = 2;

#include "kernels/kquant-inl.h"

}  // namespace kquants
}  // namespace

void RunVnni256(const PanelProduct& product, size_t first, size_t end) {
  if (IsKQuant(product.weight.dtype)) return kquants::RunKQuants(product, first, end);
  q4s::RunQ4s(product, first, end);
}

WEFT_END_TARGET;

}  // namespace weft::kernels

#endif  // __x86_64__
