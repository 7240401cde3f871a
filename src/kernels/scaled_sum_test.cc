// The sums that go with candidates: vectors against the scalar oracle.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "kernels/kernel_set.h"

namespace weft::kernels {
namespace {

TEST(ScaledSum, VectorsAgreeWithTheOracle) {
  SeededRandom random(5);
  for (const size_t vocabulary : {1u, 17u, 1000u, 150'001u}) {
    std::vector<float> logits;
    for (size_t i = 0; i < vocabulary; ++i)
      logits.push_back(static_cast<float>(20 * random.Uniform() - 5));
    const float largest = *std::max_element(logits.begin(), logits.end());
    for (const float temperature : {0.1f, 0.7f, 1.0f, 2.0f, 1e-42f}) {
      const ScaledSumArgs args = {logits, largest, temperature};
      const double expected = ScaledSumReference(args);
      EXPECT_NEAR(FastKernels().scaled_sum(args) / expected, 1, 2e-6)
          << vocabulary << " at " << temperature;
    }
  }
}

}  // namespace
}  // namespace weft::kernels
