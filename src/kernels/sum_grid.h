// On a grid of fixed-point numbers sums do not depend on the order of their terms:
//   x -> step * max(-limit, min(limit, x / step rounded to the nearest, ties to even)).
// A sum of n such values is a multiple of step below n * limit * step: exact in f32, like every
// partial sum, while n * limit <= 2^24.
#pragma once

#include <span>

namespace weft::kernels {

struct SumGrid {
  float step = 0;   // a power of two; 0: values stay as they are
  float limit = 0;  // steps, a whole number up to 2^22
};

// Adding 1.5 * 2^23 leaves no place for a fraction in an f32: up to 2^22 steps are rounded.
inline constexpr float kNoFraction = 0x1.8p23f;

inline void RoundToGrid(const SumGrid& grid, std::span<float> values) {
  if (grid.step == 0) return;
  const float steps_per_one = 1 / grid.step;  // exact
  for (float& value : values) {
    float steps = value * steps_per_one;
    steps = steps > grid.limit ? grid.limit : steps;  // a NaN stays one
    steps = steps < -grid.limit ? -grid.limit : steps;
    value = ((steps + kNoFraction) - kNoFraction) * grid.step;
  }
}

// sum += weight * the rounded values, which stay as they are. REQUIRES: as many sums as values.
void AddRoundedSimd(const SumGrid& grid, float weight, std::span<const float> values,
                    std::span<float> sum);

}  // namespace weft::kernels
