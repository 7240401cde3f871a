// Few rows of q4s where four bytes times four bytes a 32-bit lane are one instruction: levels q =
// 0..15 are multiplied as they are stored, and m comes after 16 columns. A file includes it once,
// behind q4s_parts-inl.h and
//   Dot(sum, q, x)          adds four products of levels with the signed bytes at x, a lane
//   Pairs(magnitudes, i, signs)   m as AddTimes wants it
//   AddTimes(sum, h, l, m)   adds m * (256 h + l) to sum
//   kByteZero, kPanelsOfOneRow, kPanelsOfFewRows

// 16 columns of a row: -8 times the sums of its bytes is where the sums of q * x begin.
inline Ints AddColumns(const Ints (&q)[4], const IntegerInput& in, size_t i, Ints m, Ints sum) {
  Ints h = AllWords(in.high_zero[i]);
  Ints l = AllWords(in.low_zero[i]);
  WEFT_UNROLL
  for (size_t j = 0; j < 4; ++j) {
    h = Dot(h, q[j], in.high + 16 * i + 4 * j);
    l = Dot(l, q[j], in.low + 16 * i + 4 * j);
  }
  return AddTimes(sum, h, l, m);
}

#include "kernels/q4s_bytes-inl.h"
#include "kernels/q4s_few-inl.h"
