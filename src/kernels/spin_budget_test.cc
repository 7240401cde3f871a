// Sequences of gaps and what a pool's threads then do; no clock takes part.
#include "kernels/spin_budget.h"

#include <gtest/gtest.h>

namespace weft::kernels {
namespace {

// A step's regions follow each other at once; then `between` passes until the next step.
void Steps(SpinBudget& budget, int count, Duration between) {
  for (int step = 0; step < count; ++step) {
    for (int region = 0; region < 100; ++region) budget.Observe(Microseconds(2));
    budget.Observe(between);
  }
}

TEST(SpinBudget, ReachesOverTheGapBetweenTokensOfAWorkerNearby) {
  SpinBudget budget;
  EXPECT_EQ(budget.spin(), SpinBudget::kShortest);
  Steps(budget, 3, Microseconds(40));
  EXPECT_EQ(budget.spin(), SpinBudget::kShortest);  // too few to tell
  Steps(budget, 5, Microseconds(40));
  EXPECT_GT(budget.spin(), Microseconds(60));
  Steps(budget, 100, Microseconds(40));
  EXPECT_GE(budget.spin(), Microseconds(79));
  EXPECT_LE(budget.spin(), Microseconds(80));
}

TEST(SpinBudget, NeverSpinsTowardsWorkThatIsFarAway) {
  for (const Duration between : {Microseconds(101), Milliseconds(5), Seconds(60)}) {
    SpinBudget budget;
    Steps(budget, 50, between);
    EXPECT_EQ(budget.spin(), SpinBudget::kShortest);
  }
}

TEST(SpinBudget, OneLateStepChangesNothingAndTwoEndIt) {
  SpinBudget budget;
  Steps(budget, 50, Microseconds(40));
  Steps(budget, 1, Seconds(10));  // between two requests
  EXPECT_GT(budget.spin(), Microseconds(60));
  Steps(budget, 50, Microseconds(40));
  Steps(budget, 2, Milliseconds(3));
  EXPECT_EQ(budget.spin(), SpinBudget::kShortest);
  Steps(budget, 2, Microseconds(40));
  EXPECT_GT(budget.spin(), Microseconds(60));
}

TEST(SpinBudget, IsBoundedAndFollowsShorterGaps) {
  SpinBudget budget;
  Steps(budget, 50, Microseconds(95));
  EXPECT_EQ(budget.spin(), SpinBudget::kLongest);
  Steps(budget, 50, Microseconds(25));
  EXPECT_LT(budget.spin(), Microseconds(55));
  // Gaps inside a step say nothing about those between steps.
  for (int i = 0; i < 1000; ++i) budget.Observe(Microseconds(3));
  EXPECT_GT(budget.spin(), Microseconds(45));
}

}  // namespace
}  // namespace weft::kernels
