// Rows of activations as whole numbers, and the product rules of superblocks (docs/decisions/0026,
// docs/quantisation.md):
//   e = exponent of the largest magnitude of the row in a superblock of 256 columns, as biased in
//       f32's bits, kept within 40..254
//   x = row * 2^(141 - e) * 32639/32768, rounded to the nearest, ties to even:  |x| <= 32,639
//   s = 2^(e - 141) * 1.003952..., the inverse; NaN where a value of the superblock is not finite
//   y = fma over superblocks rising, from +0:
//         q4s            y = fma(f32(H) * 256 + f32(L), S * s, y)
//         q4k, q5k, q6k  y = fma(f32(H), 256 * (d * s), y), then y = fma(f32(L), d * s, y), and in
//                        q4k and q5k y = fma(-f32(B), e * s, y)
// with x = 256 * high + low, both signed bytes, H and L the sums over the columns of w * high and w
// * low, w = m * (q - 8) in q4s and the record's scale times the level in the others, and B the sum
// of the record's m times x. They are exact, so a kernel may add them up in any order. q4s's 256 H
// + L is below 2^31, and rounding it to f32 once gives the same. H of q6k reaches 134 million: it
// is rounded to f32, ties to even, before anything else.
//
// Superblocks count from the first column of the view that is multiplied. For instance the row (1,
// -0.5) has e = 127, x = (16320, -8160) = (256 * 64 - 64, 256 * -32 + 32), s = 2^-14 * 1.003952.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/view.h"
#include "tensor/integer_row.h"  // IWYU pragma: export
#include "tensor/kquants.h"

namespace weft::kernels {

// A superblock of a row. Columns that there are not are 0. `high_zero` and `low_zero` are what
// takes 8 off 16 levels: -8 times the sums of 16 bytes. `byte_zero` takes 128 off 256 weights:
// -128 times the sum of x. `sums` are those of x over 32 columns, as 65536 * [2] + 256 * [1] + [0].
struct alignas(64) IntegerInput {
  int8_t high[256];
  int8_t low[256];
  int32_t high_zero[16];
  int32_t low_zero[16];
  int8_t sums[3][8];
  int32_t byte_zero;
  float scale;  // s
};
static_assert(sizeof(IntegerInput) == 704);  // an odd number of cache lines: rows share no set

// Floats of a prepared row of so many columns.
constexpr size_t IntegerInputFloats(size_t columns) {
  return (columns + 255) / 256 * (sizeof(IntegerInput) / sizeof(float));
}

// One value after another: the oracle of the kernels' own. `out` has ceil(row.size() / 256).
void PrepareIntegers(std::span<const float> row, IntegerInput* out);

// y of one output, by the rule. `weights` [columns], `scales` one a superblock.
float Q4sDot(std::span<const int8_t> weights, std::span<const float> scales,
             const IntegerInput* row);
// The same of q4k, q5k and q6k: records and levels (tensor/kquants.h) of each superblock.
float KQuantDot(DType dtype, std::span<const KQuantRecord> records, std::span<const int8_t> levels,
                const IntegerInput* row);

// Takes the sums of x over 32 columns from `high_zero` and `low_zero`.
void AddSums(IntegerInput* superblock);

}  // namespace weft::kernels
