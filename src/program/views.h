// Operations of a program refer to these: columns of buffers, weights, and the small structs that
// several operations have. ops.json describes the operations themselves.
#pragma once

#include <cstdint>

namespace weft::program {

using BufferId = uint32_t;
using WeightId = uint32_t;

// A view is columns [first_column, first_column + columns) of a buffer.
struct View {
  BufferId buffer = 0;
  uint32_t first_column = 0;
  uint32_t columns = 0;
};

inline bool Same(const View& a, const View& b) {
  return a.buffer == b.buffer && a.first_column == b.first_column && a.columns == b.columns;
}

// Whether they have a column in common.
inline bool Overlap(const View& a, const View& b) {
  return a.buffer == b.buffer && a.first_column < b.first_column + b.columns &&
         b.first_column < a.first_column + a.columns;
}

// A view of a weight is rows [first_row, first_row + rows) of a matrix. Packed q/k/v and gate/up
// are views of one weight.
struct WeightView {
  WeightId weight = 0;
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

// A rotation makes x * cos + rotate(x) * sin of the first 2 * len(inv_freq) columns of each head.
// The angle is position * inv_freq.
struct Rope {
  WeightId inv_freq = 0;     // f32 [rotary_columns / 2]
  float scale = 1;           // multiplies cos and sin (yarn's attention factor)
  bool interleaved = false;  // pairs (2i, 2i + 1) instead of (i, i + half)
};

// Values are rounded to multiples of `step`, at most `limit` of them, before they are added. Sums
// of up to 2^24 / limit such values are exact in f32, in any order. They are not rounded where
// `step` is 0.
struct SumGrid {
  float step = 0;   // a power of two
  float limit = 0;  // a whole number, at most 2^22
};

}  // namespace weft::program
