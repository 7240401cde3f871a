// Superblocks with NEON: four outputs a register. A file includes it once, behind
// registers_neon-inl.h and
//   Dot(sum, w, x)           adds four products of signed bytes, a lane: of weights or of levels,
//                            both within -120..120, with the bytes at x
// Many rows of q4s follow it: q4s_tile-inl.h, or something better, and q4s_many-inl.h.

namespace kquants {

constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kTileRows = 4;

#include "kernels/kquant-inl.h"

inline void Run(const PanelProduct& product, size_t first, size_t end) {
  RunKQuants(product, first, end);
}

}  // namespace kquants

constexpr int kByteZero = 0;
constexpr size_t kPanelsOfOneRow = 1;
constexpr size_t kPanelsOfFewRows = 1;
constexpr size_t kManyRows = 8;  // from which bytes are worth making

#include "kernels/q4s_parts-inl.h"

inline Ints Pairs(Ints magnitudes, size_t i, uint32_t signs) {
  return Negated(And(ShiftRight(magnitudes, 4 * i), AllWords(15)), signs);
}
inline Ints AddTimes(Ints sum, Ints h, Ints l, Ints m) {
  return AddInts(sum, TimesInts(AddInts(ShiftLeft(h, 8), l), m));
}

#include "kernels/q4s_dots-inl.h"
