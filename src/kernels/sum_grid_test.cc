// Values on a grid add up to the same bits in any order.
#include "kernels/sum_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace weft::kernels {
namespace {

std::vector<float> Terms(SeededRandom& random, size_t count, double most) {
  std::vector<float> terms(count);
  for (float& term : terms) term = static_cast<float>((random.Uniform() * 2 - 1) * most);
  return terms;
}

float Sum(const std::vector<float>& terms) {
  float sum = 0;
  for (const float term : terms) sum += term;
  return sum;
}

TEST(SumGrid, RoundsToTheNearestMultipleTiesToEven) {
  std::vector<float> values = {0.3f, -0.3f, 0.125f, 0.375f, -0.625f, 0, 1e-30f};
  RoundToGrid({0.25f, 100}, values);
  EXPECT_EQ(values, (std::vector<float>{0.25f, -0.25f, 0, 0.5f, -0.5f, 0, 0}));
  values = {0.3f};
  RoundToGrid({0, 0}, values);
  EXPECT_EQ(values[0], 0.3f) << "without a step nothing is rounded";
}

TEST(SumGrid, IsClosestUpToTheLimitAndStaysThere) {
  SeededRandom random(1);
  const SumGrid grid = {0x1p-10f, 0x1p22f};
  for (const float value : Terms(random, 100'000, 5000)) {
    std::vector<float> rounded = {value};
    RoundToGrid(grid, rounded);
    const double nearest = std::nearbyint(double{value} * 1024) / 1024;
    EXPECT_EQ(rounded[0], std::clamp(nearest, -4096.0, 4096.0)) << value;
  }
  std::vector<float> outside = {INFINITY, -INFINITY, 3e38f, NAN};
  RoundToGrid(grid, outside);
  EXPECT_EQ(outside[0], 4096);
  EXPECT_EQ(outside[1], -4096);
  EXPECT_EQ(outside[2], 4096);
  EXPECT_TRUE(std::isnan(outside[3])) << "what is not a number must be seen";
}

TEST(SumGrid, SumsDoNotDependOnTheOrder) {
  SeededRandom random(2);
  int differ_without = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    // 64 terms of up to 2^18 steps, many of them at the limit.
    std::vector<float> terms = Terms(random, 64, 1.5);
    std::vector<float> other = terms;
    for (size_t i = other.size(); i > 1; --i) std::swap(other[i - 1], other[random.Below(i)]);
    if (Sum(terms) != Sum(other)) ++differ_without;
    const SumGrid grid = {0x1p-18f, 0x1p18f};
    RoundToGrid(grid, terms);
    RoundToGrid(grid, other);
    const float sum = Sum(terms);
    EXPECT_EQ(Sum(other), sum);
    // And not on who adds which of them first.
    const std::vector<float> first(other.begin(), other.begin() + 20);
    const std::vector<float> rest(other.begin() + 20, other.end());
    EXPECT_EQ(Sum(first) + Sum(rest), sum);
  }
  EXPECT_GT(differ_without, 500);
}

TEST(SumGrid, AddsRoundedValuesAsIfRoundedOneByOne) {
  SeededRandom random(3);
  for (const size_t count : {1u, 7u, 64u, 1003u}) {
    for (const SumGrid& grid : {SumGrid{0x1p-10f, 0x1p20f}, SumGrid{}}) {
      std::vector<float> values = Terms(random, count, 2000), sum = Terms(random, count, 1);
      values[count / 2] = 3e38f;
      std::vector<float> rounded = values, expected = sum;
      RoundToGrid(grid, rounded);
      for (size_t i = 0; i < count; ++i) expected[i] += 0.3f * rounded[i];
      AddRoundedSimd(grid, 0.3f, values, sum);
      EXPECT_EQ(sum, expected) << count << " values, step " << grid.step;
    }
  }
  std::vector<float> sum = {1, 1};
  AddRoundedSimd({0x1p-10f, 0x1p20f}, 1, std::vector<float>{NAN, INFINITY}, sum);
  EXPECT_TRUE(std::isnan(sum[0])) << "what is not a number must be seen";
  EXPECT_EQ(sum[1], 1025);
}

}  // namespace
}  // namespace weft::kernels
