// Many rows of q4s with NEON, by dot products of four bytes. A file includes it once, behind
// neon-inl.h.

constexpr size_t kTilePanels = 1;
constexpr size_t kTileRows = 3;  // 3 x 4 groups, two sums each: 24 registers of 32

inline Ints DotInPlace(Ints sum, Ints w, const int8_t* x) {
  return Dot(sum, w, x);
}

#include "kernels/q4s_tile-inl.h"
// Behind what it needs.
#include "kernels/q4s_many-inl.h"
