// Rows of activations as whole numbers, and the product rule of q4s (docs/decisions/0026):
//   e = exponent of the largest magnitude of the row in a superblock of 256 columns, as biased in
//       f32's bits, kept within 40..254
//   x = row * 2^(141 - e) * 32639/32768, rounded to the nearest, ties to even:  |x| <= 32,639
//   s = 2^(e - 141) * 1.003952..., the inverse; NaN where a value of the superblock is not finite
//   y = fma over superblocks rising, from +0: y = fma(f32(H) * 256 + f32(L), S * s, y)
// with H and L the sums over the columns of w * high and w * low, x = 256 * high + low, both signed
// bytes. They are exact, so a kernel may add them up in any order; 256 H + L is below 2^31, and
// rounding it to f32 once gives the same.
//
// Superblocks count from the first column of the view that is multiplied. For instance the row (1,
// -0.5) has e = 127, x = (16320, -8160) = (256 * 64 - 64, 256 * -32 + 32), s = 2^-14 * 1.003952.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/view.h"

namespace weft::kernels {

// A superblock of a row. Columns that there are not are 0. `high_zero` and `low_zero` are what
// takes 8 off 16 levels: -8 times the sums of 16 bytes. `byte_zero` takes 128 off 256 weights:
// -128 times the sum of x.
struct alignas(64) Q4sInput {
  int8_t high[256];
  int8_t low[256];
  int32_t high_zero[16];
  int32_t low_zero[16];
  int32_t byte_zero;
  float scale;  // s
};
static_assert(sizeof(Q4sInput) == 704);  // an odd number of cache lines: rows share no set

inline constexpr float kQ4sHeadroom = 0.996063232421875f;  // 32639 / 32768
inline constexpr float kQ4sInverseHeadroom = 1.003952326971f;
inline constexpr uint32_t kQ4sLeastExponent = 40, kQ4sMostExponent = 254;

// Floats of a prepared row of so many columns.
constexpr size_t Q4sInputFloats(size_t columns) {
  return (columns + 255) / 256 * (sizeof(Q4sInput) / sizeof(float));
}

// One value after another: the oracle of the kernels' own. `out` has ceil(row.size() / 256).
void PrepareQ4sRow(std::span<const float> row, Q4sInput* out);

// y of one output, by the rule. `weights` [columns], `scales` one a superblock.
float Q4sDot(std::span<const int8_t> weights, std::span<const float> scales, const Q4sInput* row);

}  // namespace weft::kernels
