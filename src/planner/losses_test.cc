// What losses cost, against repairs and plans that are looked for one by one.
#include "planner/losses.h"

#include <gtest/gtest.h>

#include "planner/cost_model.h"
#include "planner/planner_testing.h"

namespace weft::planner {
namespace {

using testing::Instance;
using testing::Oracle;
using testing::RandomPricedInstance;

TEST(FindLossesTest, WhatIsLeftIsTheBestPlanOfTheOthers) {
  int survived = 0, fatal = 0, repaired = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance instance = RandomPricedInstance(seed, 4, 6, 1.5 + 0.5 * static_cast<double>(seed % 4));
    instance.context.up = true;
    instance.context.token_us = 50'000;
    const PlanOutcome outcome = FindPlan(instance.layers, instance.workers, instance.context);
    if (!outcome.plan) continue;
    const std::vector<Loss> losses =
        FindLosses(instance.layers, instance.workers, instance.context, *outcome.plan, 500);
    ASSERT_EQ(losses.size(), outcome.plan->stages.size());
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_EQ(losses[i].worker, outcome.plan->stages[i].worker);
      Instance others = instance;
      others.workers.erase(others.workers.begin() + losses[i].worker);
      const double best = Oracle(others).Best();
      ASSERT_EQ(losses[i].after.has_value(), best < kInfinity);
      EXPECT_EQ(losses[i].missing_memory_bytes == 0, losses[i].after.has_value());
      if (!losses[i].after) {
        // A neighbour may still hold a second range beside its own, which no plan has.
        fatal += !losses[i].repair;
        EXPECT_EQ(losses[i].downtime_us == kInfinity, !losses[i].repair);
        continue;
      }
      ++survived;
      EXPECT_NEAR(losses[i].after->total_cost, best, 1e-9 * best);
      if (!losses[i].repair) continue;
      ++repaired;
      EXPECT_EQ(losses[i].downtime_us, losses[i].repair->downtime_us);
      for (const StageAssignment& part : losses[i].repair->stages) {
        // Beside what it runs already, within its offer.
        EXPECT_NE(part.worker, losses[i].worker);
        uint64_t held = part.memory_bytes;
        for (const StageAssignment& stage : outcome.plan->stages)
          if (stage.worker == part.worker) held += stage.memory_bytes;
        EXPECT_LE(held, instance.workers[static_cast<size_t>(part.worker)].memory_bytes);
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(survived, 100);
  EXPECT_GT(fatal, 50);
  EXPECT_GT(repaired, 50);
}

TEST(FindLossesTest, ANeighbourTakesOverWhatItHasRoomFor) {
  // Two devices that hold two of four layers each, and have room for no more.
  Instance instance;
  instance.layers.resize(4);
  for (LayerCost& layer : instance.layers) layer = {1e8, 100'000'000, 0, 0, 2000, 2000};
  WorkerMetrics worker;
  worker.memory_bytes = 200'000'000;
  worker.compute_speed = 10'000;
  worker.bandwidth_down = worker.bandwidth_up = 10;
  instance.workers = {worker, worker};
  Plan plan;
  plan.stages = {{0, 0, 2}, {1, 2, 4}};
  for (StageAssignment& stage : plan.stages) stage.memory_bytes = 200'000'000;
  std::vector<Loss> losses =
      FindLosses(instance.layers, instance.workers, instance.context, plan, 0);
  EXPECT_FALSE(losses[0].after);
  EXPECT_EQ(losses[0].missing_memory_bytes, 200'000'000u);

  // One byte short of room for the other two, then enough.
  instance.workers[1].memory_bytes = 399'999'999;
  losses = FindLosses(instance.layers, instance.workers, instance.context, plan, 0);
  EXPECT_FALSE(losses[0].repair);
  EXPECT_EQ(losses[0].missing_memory_bytes, 100'000'000u);
  instance.workers[1].memory_bytes = 400'000'000;
  losses = FindLosses(instance.layers, instance.workers, instance.context, plan, 0);
  ASSERT_TRUE(losses[0].repair && losses[0].after);
  EXPECT_EQ(losses[0].downtime_us, 1e6 + 2e8 / 10);  // a session, and two layers to fetch
  EXPECT_EQ(losses[0].after->stages.size(), 1u);
  // Its own layers are on its disk: only the other two are fetched.
  EXPECT_EQ(losses[0].after->stages[0].download_bytes, 200'000'000u);
}

}  // namespace
}  // namespace weft::planner
