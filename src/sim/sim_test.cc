// The simulator's seeds as tests, and the named past failures of this field that only show over
// time.
#include <gtest/gtest.h>

#include "sim/run.h"
#include "sim/simulation.h"

namespace weft::sim {
namespace {

TEST(Simulation, SeedsHoldAllInvariants) {
  // About 10 ms a seed; `weft sim` runs as many as one likes.
  EXPECT_EQ(RunSimulation(1, 400, false), 0);
}

TEST(Simulation, OneSeedReplaysARunExactly) {
  for (const uint64_t seed : {5u, 8u, 77u}) {
    const Outcome first = Simulate(seed, MakeScenario(seed));
    const Outcome second = Simulate(seed, MakeScenario(seed));
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.events, second.events);
    EXPECT_GT(first.events, 100u);
  }
  EXPECT_NE(Simulate(5, MakeScenario(5)).digest, Simulate(6, MakeScenario(6)).digest);
}

// The seeds are only worth something if they reach what they are about.
TEST(Simulation, SeedsReachWhatTheyAreAbout) {
  Outcome sum;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = Simulate(seed, MakeScenario(seed));
    sum.tokens += outcome.tokens;
    sum.requests += outcome.requests;
    sum.losses += outcome.losses;
    sum.closed_by_core += outcome.closed_by_core;
    sum.cancelled += outcome.cancelled;
    sum.failed_on_purpose += outcome.failed_on_purpose;
  }
  EXPECT_GT(sum.tokens, 50'000u);
  EXPECT_GT(sum.requests, 4'000u);
  EXPECT_GT(sum.losses, 300u);
  EXPECT_GT(sum.closed_by_core, 100u);
  EXPECT_GT(sum.cancelled, 50u);
  EXPECT_GT(sum.failed_on_purpose, 0u);
}

}  // namespace
}  // namespace weft::sim
