// What operations of a program refer to: columns of buffers, weights, and the small structs that
// several operations have. The operations themselves are described by ops.json.
#pragma once

#include <cstdint>

namespace weft::program {

using BufferId = uint32_t;
using WeightId = uint32_t;

// Columns [first_column, first_column + columns) of a buffer.
struct View {
  BufferId buffer = 0;
  uint32_t first_column = 0;
  uint32_t columns = 0;
};

// Rows [first_row, first_row + rows) of a 2-D weight: packed q/k/v and gate/up are views of one
// weight.
struct WeightView {
  WeightId weight = 0;
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

// x * cos + rotate(x) * sin on the first 2 * len(inv_freq) columns of each head, angle = position *
// inv_freq.
struct Rope {
  WeightId inv_freq = 0;     // f32 [rotary_columns / 2]
  float scale = 1;           // multiplies cos and sin (yarn's attention factor)
  bool interleaved = false;  // pairs (2i, 2i + 1) instead of (i, i + half)
};

// Values are rounded to multiples of `step`, at most `limit` of them, before they are added: sums
// of up to 2^24 / limit such values are exact in f32, in any order. A step of 0: not rounded.
struct SumGrid {
  float step = 0;   // a power of two
  float limit = 0;  // a whole number, at most 2^22
};

}  // namespace weft::program
