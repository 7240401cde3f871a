// Expected departures in the cost, against what devices that come and go at random really cost.
#include <gtest/gtest.h>

#include <cmath>

#include "planner/cost_model.h"
#include "planner/planner_testing.h"

namespace weft::planner {
namespace {

using testing::Instance;
using testing::RandomInstance;

constexpr double kDayUs = 86'400e6;

// Time per token over a day in which the plan's workers leave at random and are back, or replaced,
// after the time that their layers take to load elsewhere.
double SimulatedTokenUs(const Instance& instance, const Plan& plan, uint64_t seed) {
  SeededRandom random(seed);
  double stopped_us = 0;
  for (const StageAssignment& stage : plan.stages) {
    const double rate = instance.workers[static_cast<size_t>(stage.worker)].departures_per_s * 1e-6;
    if (rate == 0) continue;
    double weight_bytes = 0;
    for (int i = stage.first_layer; i < stage.end_layer; ++i)
      weight_bytes += static_cast<double>(instance.layers[static_cast<size_t>(i)].weight_bytes);
    const double repair_us =
        instance.context.repair_us + weight_bytes / instance.context.repair_bytes_per_us;
    for (double now = 0; now < kDayUs; stopped_us += repair_us)
      now += -std::log(1 - random.Uniform()) / rate;
  }
  return plan.exec_us * kDayUs / std::max(kDayUs - stopped_us, 1.0);
}

Instance UnreliableInstance(uint64_t seed) {
  Instance instance = RandomInstance(seed, 8, 12, 8, false);
  PlanContext& context = instance.context;
  context.rule = PlanRule::kPriced;
  context.up = true;
  context.repair_us = 3e6;
  context.repair_bytes_per_us = 20;
  SeededRandom random(seed + 5);
  for (WorkerMetrics& worker : instance.workers) {
    // Alike enough that there is a choice.
    worker.compute_speed = 10'000 * (1 + random.Uniform());
    worker.latency_us = 2000;
    if (random.Below(2) == 0) worker.departures_per_s = 1.0 / (100 + 1000 * random.Uniform());
  }
  return instance;
}

TEST(ReliabilityTest, TheCostOfDeparturesIsWhatDevicesThatComeAndGoCost) {
  int count = 0, paid = 0;
  double mean_ratio = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Instance instance = UnreliableInstance(seed);
    Instance trusting = instance;
    for (WorkerMetrics& worker : trusting.workers) worker.departures_per_s = 0;
    const PlanOutcome with = FindPlan(instance.layers, instance.workers, instance.context);
    const PlanOutcome without = FindPlan(trusting.layers, trusting.workers, trusting.context);
    ASSERT_EQ(with.plan.has_value(), without.plan.has_value());
    if (!with.plan) continue;
    ++count;
    const double simulated = SimulatedTokenUs(instance, *with.plan, seed);
    const double predicted = with.plan->exec_us + with.plan->departure_us;
    // To first order: what is stopped is no longer a small part of the time beyond that.
    if (with.plan->departure_us < 0.1 * with.plan->exec_us) {
      EXPECT_NEAR(predicted, simulated, 0.03 * simulated);
    }
    const double trusted = SimulatedTokenUs(instance, *without.plan, seed);
    mean_ratio += simulated / trusted;
    paid += simulated < trusted * 0.98;
    EXPECT_LT(simulated, trusted * 1.05);
  }
  EXPECT_GT(count, 150);
  EXPECT_GT(paid, 20);
  mean_ratio /= count;
  EXPECT_LT(mean_ratio, 0.985);
  RecordProperty("mean_ratio_per_mille", static_cast<int>(1000 * mean_ratio));
}

TEST(ReliabilityTest, WhoLeavesOftenGetsFewerLayers) {
  // Both are needed; the faster one leaves every five minutes.
  Instance instance;
  instance.layers.resize(10);
  for (LayerCost& layer : instance.layers) layer = {1e8, 100'000'000, 0, 0, 2000, 2000};
  WorkerMetrics worker;
  worker.memory_bytes = 800'000'000;
  worker.compute_speed = 10'000;
  worker.bandwidth_down = worker.bandwidth_up = 10;
  instance.workers = {worker, worker};
  instance.workers[1].compute_speed = 11'000;
  instance.context.up = true;
  instance.context.repair_us = 1e6;
  instance.context.repair_bytes_per_us = 10;
  const auto layers_of_second = [&] {
    const PlanOutcome outcome = FindPlan(instance.layers, instance.workers, instance.context);
    EXPECT_TRUE(outcome.plan && outcome.plan->stages.size() == 2) << outcome.problem;
    int count = 0;
    for (const StageAssignment& stage : outcome.plan->stages)
      if (stage.worker == 1) count = stage.end_layer - stage.first_layer;
    return count;
  };
  EXPECT_EQ(layers_of_second(), 8);
  instance.workers[1].departures_per_s = 1.0 / 300;
  EXPECT_EQ(layers_of_second(), 2);
}

TEST(ReliabilityTest, OfTwoThatFillAHoleEquallySoonTheOneThatStaysIsTaken) {
  Instance instance;
  instance.layers.resize(2);
  for (LayerCost& layer : instance.layers) layer = {1e8, 100'000'000, 0, 0, 2000, 2000};
  WorkerMetrics worker;
  worker.memory_bytes = 800'000'000;
  worker.compute_speed = 10'000;
  worker.bandwidth_down = worker.bandwidth_up = 10;
  instance.workers = {worker, worker};
  instance.workers[0].compute_speed = 11'000;
  instance.workers[0].departures_per_s = 1.0 / 60;
  instance.context.token_us = 50'000;
  RepairProblem problem;
  problem.first_layer = 1;
  problem.end_layer = 2;
  problem.candidates = {{0, 800'000'000, {}, {}}, {1, 800'000'000, {}, {}}};
  auto repair = RepairPlan(instance.layers, instance.workers, instance.context, problem);
  ASSERT_TRUE(repair);
  EXPECT_EQ(repair->stages[0].worker, 1);
  EXPECT_DOUBLE_EQ(repair->exec_us, repair->stages[0].exec_us);
  instance.workers[0].departures_per_s = 0;
  repair = RepairPlan(instance.layers, instance.workers, instance.context, problem);
  EXPECT_EQ(repair->stages[0].worker, 0);
}

}  // namespace
}  // namespace weft::planner
