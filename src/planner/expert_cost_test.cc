#include "planner/expert_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace weft::planner {
namespace {

// By going through every way in which k draws fall on the holders.
double Enumerated(const std::vector<ExpertHolderCost>& holders, uint32_t top_k) {
  double all = 0;
  for (const ExpertHolderCost& holder : holders) all += holder.share;
  std::vector<double> times;
  for (const ExpertHolderCost& holder : holders) {
    const double p = holder.share / all;
    times.push_back(holder.round_trip_us +
                    holder.expert_us * top_k * p / (1 - std::pow(1 - p, top_k)));
  }
  const auto ways = static_cast<size_t>(std::pow(holders.size(), top_k) + 0.5);
  double expected = 0;
  for (size_t way = 0; way < ways; ++way) {
    double probability = 1, slowest = 0;
    size_t rest = way;
    for (uint32_t draw = 0; draw < top_k; ++draw, rest /= holders.size()) {
      probability *= holders[rest % holders.size()].share / all;
      slowest = std::max(slowest, times[rest % holders.size()]);
    }
    expected += probability * slowest;
  }
  return expected;
}

TEST(ExpertCost, IsTheExpectedTimeOfTheSlowestHolderThatIsAsked) {
  SeededRandom random(5);
  for (int run = 0; run < 200; ++run) {
    std::vector<ExpertHolderCost> holders(1 + random.Below(5));
    for (ExpertHolderCost& holder : holders)
      holder = {0.1 + random.Uniform(), 1000 * random.Uniform(), 50 * random.Uniform()};
    const auto top_k = static_cast<uint32_t>(1 + random.Below(5));
    const double expected = Enumerated(holders, top_k);
    EXPECT_NEAR(ExpectedDispatchUs(holders, top_k), expected, 1e-9 * expected);
  }
}

TEST(ExpertCost, WhoHoldsNothingCostsNothing) {
  EXPECT_EQ(ExpectedDispatchUs({}, 4), 0);
  EXPECT_EQ(ExpectedDispatchUs({{0, 1e6, 1e6}, {1, 200, 10}}, 4), 240);
}

}  // namespace
}  // namespace weft::planner
