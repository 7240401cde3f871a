// The ways to share out layers that the planner is compared with, each against its own rule written
// out once more, and none of them better than the planner.
#include "planner/strategies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/planner.h"
#include "planner/planner_testing.h"

namespace weft::planner {
namespace {

using testing::Instance;
using testing::RandomPricedInstance;

// Serving, so that time per token is all that counts.
Instance ServingInstance(uint64_t seed, int worker_count, int layer_count, double slack) {
  Instance instance = RandomPricedInstance(seed, worker_count, layer_count, slack);
  instance.context.up = true;
  for (WorkerMetrics& worker : instance.workers) worker.departures_per_s = 0;
  return instance;
}

PlanOutcome FindBy(Instance instance, PlanChoice choice, int equal_parts = 0) {
  instance.context.search.choice = choice;
  instance.context.search.equal_parts = equal_parts;
  return FindPlan(instance.layers, instance.workers, instance.context);
}

std::vector<int> CutsOf(const Plan& plan) {
  std::vector<int> cuts = {0};
  for (const StageAssignment& stage : plan.stages) cuts.push_back(stage.end_layer);
  return cuts;
}

// The least time of any workers in any order for these cuts; infinity where they do not fit.
double BestForCuts(const Instance& instance, const std::vector<int>& cuts) {
  const testing::Oracle oracle(instance);
  std::vector<int> order(instance.workers.size());
  std::iota(order.begin(), order.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  if (cuts.size() - 1 > order.size()) return least;
  do {
    double exec = 0;
    bool allowed = true;
    for (size_t k = 0; k + 1 < cuts.size() && allowed; ++k) {
      allowed = oracle.Allowed(order[k], cuts[k], cuts[k + 1]);
      exec += oracle.Exec(order[k], cuts[k], cuts[k + 1]);
    }
    if (allowed) least = std::min(least, exec);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(EqualSplitTest, IsAsThe74SaysWithTheBestOrderOfWorkers) {
  int found = 0, none = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Instance instance = ServingInstance(seed, 5, 13, 3);
    // 13 layers in 3 parts: the first has 3, the others 5.
    const PlanOutcome three = FindBy(instance, PlanChoice::kEqual, 3);
    const std::vector<int> cuts = {0, 3, 8, 13};
    const double best = BestForCuts(instance, cuts);
    ASSERT_EQ(three.plan.has_value(), best < kInfinity);
    if (!three.plan) {
      ++none;
      EXPECT_EQ(three.problem, "The layers do not fit as they are shared out equally.");
      continue;
    }
    ++found;
    EXPECT_EQ(three.strategy, SearchStrategy::kEqual);
    EXPECT_EQ(CutsOf(*three.plan), cuts);
    EXPECT_NEAR(three.plan->exec_us, best, 1e-9 * best);
    // Without a number, no more parts than what is found would fit.
    const PlanOutcome most = FindBy(instance, PlanChoice::kEqual);
    ASSERT_TRUE(most.plan);
    EXPECT_GE(most.plan->stages.size(), 3u);
    const PlanOutcome ours = FindBy(instance, PlanChoice::kBest);
    EXPECT_LE(ours.plan->exec_us, three.plan->exec_us * (1 + 1e-12));
    EXPECT_LE(ours.plan->exec_us, most.plan->exec_us * (1 + 1e-12));
  }
  EXPECT_GT(found, 30);
  EXPECT_GT(none, 15);
}

TEST(MemorySplitTest, SharesLayersOutInProportionToWhatIsOffered) {
  Instance instance;
  instance.context.up = true;
  instance.layers.resize(12);
  for (LayerCost& layer : instance.layers) layer.weight_bytes = 1'000'000;
  instance.workers.resize(3);
  instance.workers[0].memory_bytes = 10'000'000;  // a quarter
  instance.workers[1].memory_bytes = 20'000'000;  // half
  instance.workers[2].memory_bytes = 10'000'000;
  instance.workers[2].compute_speed = 1000;
  const PlanOutcome outcome = FindBy(instance, PlanChoice::kMemory);
  ASSERT_TRUE(outcome.plan) << outcome.problem;
  EXPECT_EQ(outcome.strategy, SearchStrategy::kMemory);
  EXPECT_EQ(CutsOf(*outcome.plan), (std::vector<int>{0, 6, 9, 12}));
  EXPECT_EQ(outcome.plan->stages[0].worker, 1);
  EXPECT_EQ(outcome.plan->stages[1].worker, 0);
  EXPECT_EQ(outcome.plan->stages[2].worker, 2);
  instance.workers.resize(1);
  instance.workers[0].memory_bytes = 11'000'000;
  EXPECT_EQ(FindBy(instance, PlanChoice::kMemory).problem,
            "The layers do not fit as they are shared out by memory.");
}

TEST(PermutationTest, IsNeverBetterThanThePlannerAndEqualWhereItIsExhaustive) {
  int equal = 0, count = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Instance instance = ServingInstance(seed + 500, 5, 14, 1.6);
    const PlanOutcome ours = FindBy(instance, PlanChoice::kBest);
    const PlanOutcome thesis = FindBy(instance, PlanChoice::kPermutation);
    ASSERT_EQ(ours.plan.has_value(), thesis.plan.has_value());
    if (!ours.plan) continue;
    EXPECT_EQ(thesis.strategy, SearchStrategy::kPermutations);
    // Without loading the thesis' dynamic program is exact for an order.
    EXPECT_NEAR(thesis.plan->exec_us, ours.plan->exec_us, 1e-9 * ours.plan->exec_us);
    ++count;
    const Instance larger = ServingInstance(seed + 900, 12, 30, 1.6);
    const PlanOutcome best = FindBy(larger, PlanChoice::kBest);
    const PlanOutcome annealed = FindBy(larger, PlanChoice::kPermutation);
    if (!best.plan || !annealed.plan) continue;
    EXPECT_EQ(annealed.strategy, SearchStrategy::kAnnealing);
    EXPECT_GE(annealed.plan->exec_us, best.plan->exec_us * (1 - 1e-9));
    equal += annealed.plan->exec_us <= best.plan->exec_us * (1 + 1e-9);
  }
  EXPECT_GT(count, 20);
  EXPECT_LT(equal, 20);  // or there would be no reason for another search
}

TEST(WithoutMetricTest, APlanThatIgnoresAMetricIsWorseWhereItMatters) {
  // dynamic-graph-partitioning 7.5: a device behind a slow link is a trap for whoever does not look
  // at bandwidth, a far one for whoever does not look at latency, and so on.
  Instance instance;
  instance.context.up = true;
  instance.layers.resize(20);
  for (LayerCost& layer : instance.layers) {
    layer.weight_bytes = 100'000'000;
    layer.compute_cost = 1e8;
    layer.input_bytes = layer.output_bytes = 8192;
  }
  WorkerMetrics good;
  good.memory_bytes = 1'000'000'000;
  good.compute_speed = 20'000;
  good.bandwidth_down = good.bandwidth_up = 50;
  good.latency_us = 2000;
  good.session_overhead_us = 500;
  struct Trap {
    Metric metric;
    void (*spoil)(WorkerMetrics&);
  };
  const Trap traps[] = {
      {Metric::kSpeed, [](WorkerMetrics& worker) { worker.compute_speed /= 4; }},
      {Metric::kOverhead, [](WorkerMetrics& worker) { worker.session_overhead_us += 80'000; }},
      {Metric::kLatency, [](WorkerMetrics& worker) { worker.latency_us += 100'000; }},
      {Metric::kBandwidth,
       [](WorkerMetrics& worker) { worker.bandwidth_down = worker.bandwidth_up = 0.128; }},
  };
  for (const Trap& trap : traps) {
    instance.workers = {good, good, good};
    trap.spoil(instance.workers[0]);
    // A little better in everything else, so that only the metric tells.
    instance.workers[0].compute_speed *= 1.01;
    instance.workers[0].latency_us *= 0.99;
    instance.workers[0].bandwidth_down *= 1.01;
    const PlanOutcome all = FindPlan(instance.layers, instance.workers, instance.context);
    ASSERT_TRUE(all.plan);
    for (const StageAssignment& stage : all.plan->stages) EXPECT_NE(stage.worker, 0);
    const PlanOutcome blind =
        FindPlan(instance.layers, WithoutMetric(instance.workers, trap.metric), instance.context);
    ASSERT_TRUE(blind.plan);
    const auto real =
        EvaluatePlan(instance.layers, instance.workers, instance.context, blind.plan->stages);
    ASSERT_TRUE(real);
    EXPECT_GT(real->exec_us, all.plan->exec_us * 1.05);
    EXPECT_LT(blind.plan->exec_us, real->exec_us);  // and it believes to be fast
  }
}

}  // namespace
}  // namespace weft::planner
