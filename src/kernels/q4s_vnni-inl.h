// The kernel of q4s where four unsigned bytes times four signed bytes a 32-bit lane are one
// instruction (VNNI), whatever the width of registers. A file includes it once, behind
// registers_*-inl.h and
//   Dot(sum, q, x)           adds four products of unsigned q with the signed bytes at x, a lane
//   DotInPlace(sum, w, x)    the same where many sums are in registers
//   PairDot(sum, a, b)       adds two products of signed 16-bit halves, a lane
//   Pairs(magnitudes, i, signs)   m in the low halves and 256 m in the high ones
//   kPanelsOfOneRow, kPanelsOfFewRows, kTilePanels, kTileRows, kManyRows: what was measured
//
// Few rows: levels q = 0..15 are multiplied as they are stored. After 16 columns H and L fit 16
// bits, lie side by side in a lane, and one instruction adds 256 m * H + m * L.
//
// Many rows: an instruction for four products a lane, and nothing beside it. 128 times the sum of a
// row's x is taken off at the end.

constexpr int kByteZero = 128;

#include "kernels/q4s_parts-inl.h"

inline Ints AddTimes(Ints sum, Ints h, Ints l, Ints m) {
  return PairDot(sum, Halves(l, ShiftLeft(h, 16)), m);
}

#include "kernels/q4s_dots-inl.h"
#include "kernels/q4s_tile-inl.h"
// Behind what it needs.
#include "kernels/q4s_many-inl.h"
