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
  const auto ways = static_cast<size_t>(std::lround(std::pow(holders.size(), top_k)));
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

// Against every way to give the groups out.
double BestShares(const std::vector<ExpertHolderCost>& holders, size_t from, uint32_t groups) {
  if (groups == 0) return 0;
  if (from == holders.size()) return HUGE_VAL;
  double best = HUGE_VAL;
  for (uint32_t own = 0; own <= std::min(groups, holders[from].most); ++own) {
    const double us = own == 0 ? 0 : holders[from].round_trip_us + own * holders[from].expert_us;
    best = std::min(best, std::max(us, BestShares(holders, from + 1, groups - own)));
  }
  return best;
}

TEST(ExpertCost, GroupsAreSharedOutSoThatTheLastEndsSoonest) {
  EXPECT_EQ(SharedDispatchUs({{1, 0, 1000}, {1, 4000, 1000}}, 12), 8000);
  SeededRandom random(6);
  for (int run = 0; run < 300; ++run) {
    std::vector<ExpertHolderCost> holders(1 + random.Below(4));
    for (ExpertHolderCost& holder : holders)
      holder = {1, 1000 * random.Uniform(), 1 + 300 * random.Uniform(),
                static_cast<uint32_t>(random.Below(9))};
    holders[0].most = 20;
    const auto groups = static_cast<uint32_t>(1 + random.Below(12));
    const double expected = BestShares(holders, 0, groups);
    EXPECT_NEAR(SharedDispatchUs(holders, groups), expected, 1e-9 * expected);
  }
  EXPECT_EQ(SharedDispatchUs({{1, 5, 10, 1}}, 2), 15) << "there is no room for the second";
  EXPECT_EQ(SharedDispatchUs({}, 3), 0);
}

}  // namespace
}  // namespace weft::planner
