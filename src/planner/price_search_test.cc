// The search by prices and its parts against exhaustive search, the exact search, and swarms of any
// size whose optimum a short program knows: where all layers are alike, order does not matter.
#include "planner/price_search.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "planner/beam_search.h"
#include "planner/exact_search.h"
#include "planner/matching.h"
#include "planner/planner_testing.h"
#include "planner/window_search.h"

namespace weft::planner {
namespace {

using testing::Instance;
using testing::RandomInstance;
using testing::RandomPricedInstance;

StageTable TableOf(const Instance& instance) {
  std::vector<int> all(instance.workers.size());
  std::iota(all.begin(), all.end(), 0);
  PlanContext context = instance.context;
  if (context.token_us == 0) context.token_us = 50'000;
  return {CostModel(instance.layers, instance.workers, context), all};
}

// Priced or not, while a plan serves or not.
Instance AnyInstance(uint64_t seed, int worker_count, int layer_count, double slack) {
  return seed % 3 == 0 ? RandomInstance(seed, worker_count, layer_count, slack)
                       : RandomPricedInstance(seed, worker_count, layer_count, slack);
}

void ExpectHolds(const StageTable& table, const std::vector<StageChoice>& stages) {
  std::set<int> used;
  int covered = 0;
  for (const StageChoice& stage : stages) {
    EXPECT_EQ(stage.first, covered);
    EXPECT_LE(stage.end, table.Reach(stage.worker, stage.first));
    EXPECT_TRUE(used.insert(stage.worker).second);
    covered = stage.end;
  }
  EXPECT_EQ(covered, table.layer_count);
}

TEST(PricePathTest, NoPricesGiveABoundAboveTheLeastSum) {
  int below_at_zero = 0, raised = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const StageTable table = TableOf(AnyInstance(seed, 6, 12, 1.6));
    const std::optional<Assignment> best = FindExact(SumUnderCap(table, kInfinity));
    const Reachability reachability(table);
    PricePath path(table, reachability);
    SeededRandom random(seed);
    std::vector<double> prices(6, 0);
    const double at_zero = path.Evaluate(prices);
    for (int round = 0; round < 10; ++round) {
      const double bound = path.Evaluate(prices);
      if (best) {
        ASSERT_LE(bound, best->total_cost * (1 + 1e-9));
      }
      if (bound == kInfinity) break;
      if (best) below_at_zero += at_zero < best->total_cost * (1 - 1e-9);
      raised += bound > at_zero;
      double sum = -std::accumulate(prices.begin(), prices.end(), 0.0);
      for (const StageChoice& stage : path.Path()) {
        sum += table.sum[table.At(stage.worker, stage.first, stage.end)] +
               prices[static_cast<size_t>(stage.worker)];
        EXPECT_NEAR(path.Excess(stage), 0, 1e-9 * path.rest()[0]);
      }
      ASSERT_NEAR(sum, bound, 1e-9 * path.rest()[0]);
      for (int worker = 0; worker < 6; ++worker)
        for (int end = 1; end <= table.Reach(worker, 0); ++end)
          ASSERT_GE(path.Excess({worker, 0, end}), -1e-9 * path.rest()[0]);
      for (double& price : prices) price = random.Below(2) == 0 ? 0 : 2e4 * random.Uniform();
    }
  }
  EXPECT_GT(below_at_zero, 300);
  EXPECT_GT(raised, 300);
}

TEST(MatchingTest, EqualsEveryChoiceOfWorkersForTheCuts) {
  int matched = 0, impossible = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const StageTable table = TableOf(AnyInstance(seed + 40, 5, 8, 1.8));
    const Reachability reachability(table);
    SeededRandom random(seed);
    std::vector<int> cuts = {0};
    while (cuts.back() < 8 && cuts.size() < 5)
      cuts.push_back(cuts.back() + 1 + static_cast<int>(random.Below(3)));
    cuts.back() = 8;
    if (cuts[cuts.size() - 2] >= 8) continue;
    double least = kInfinity;
    std::vector<int> order = {0, 1, 2, 3, 4};
    do {
      double sum = 0;
      for (size_t k = 0; k + 1 < cuts.size(); ++k)
        sum += reachability.Furthest(order[k], cuts[k]) >= cuts[k + 1]
                   ? table.sum[table.At(order[k], cuts[k], cuts[k + 1])]
                   : kInfinity;
      least = std::min(least, sum);
    } while (std::next_permutation(order.begin(), order.end()));
    const auto stages = MatchWorkers(table, reachability, cuts);
    ASSERT_EQ(stages.has_value(), least < kInfinity) << "seed " << seed;
    if (!stages) {
      ++impossible;
      continue;
    }
    ++matched;
    ExpectHolds(table, *stages);
    double sum = 0;
    for (const StageChoice& stage : *stages)
      sum += table.sum[table.At(stage.worker, stage.first, stage.end)];
    ASSERT_NEAR(sum, least, 1e-9 * least);
  }
  EXPECT_GT(matched, 100);
  EXPECT_GT(impossible, 50);
}

TEST(BeamSearchTest, WhatItCallsCompleteIsOptimal) {
  int complete = 0, cut_short = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const StageTable table = TableOf(AnyInstance(seed + 7000, 8, 16, seed % 2 == 0 ? 1.4 : 2.5));
    const std::optional<Assignment> best = FindExact(table);
    const Reachability reachability(table);
    PricePath path(table, reachability);
    const double bound = path.Evaluate(std::vector<double>(8, 0));
    if (bound == kInfinity) continue;
    BeamSearch beam(table, reachability, path, bound, 0, {seed % 3 == 0 ? 4 : 500, 1e7});
    const BeamResult found = beam.Run(kInfinity);
    if (!found.stages.empty()) ExpectHolds(table, found.stages);
    (found.complete ? complete : cut_short) += 1;
    if (!found.complete) continue;
    ASSERT_EQ(found.stages.empty(), !best.has_value());
    if (best) {
      ASSERT_NEAR(TotalCost(table, found.stages), best->total_cost, 1e-9 * best->total_cost);
    }
  }
  EXPECT_GT(complete, 40);
  EXPECT_GT(cut_short, 10);
}

TEST(WindowSearchTest, ReachesTheOptimumWhereOneWindowIsEverything) {
  int reached = 0, count = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Instance instance = RandomPricedInstance(seed + 300, 8, 16, 2);
    instance.context.up = true;  // no max term: windows are exact
    const StageTable table = TableOf(instance);
    const std::optional<Assignment> best = FindExact(table);
    const std::vector<int> cover = FindCover(Reachability(table));
    if (!best || cover.empty()) continue;
    const Reachability reachability(table);
    PricePath path(table, reachability);
    path.Evaluate(std::vector<double>(8, 0));
    std::vector<StageChoice> stages;
    int first = 0;
    for (const int worker : cover) {
      stages.push_back({worker, first, reachability.Furthest(worker, first)});
      first = stages.back().end;
    }
    const double before = TotalCost(table, stages);
    WindowSearch(table, reachability, path).Improve(stages, 1e9);
    ExpectHolds(table, stages);
    const double after = TotalCost(table, stages);
    ASSERT_LE(after, before * (1 + 1e-12));
    ASSERT_GE(after, best->total_cost * (1 - 1e-12));
    ++count;
    reached += after <= best->total_cost * (1 + 1e-9);
  }
  EXPECT_GT(count, 40);
  EXPECT_GT(reached, count * 9 / 10);
}

TEST(PriceSearchTest, StaysWithinAPercentOfTheExactSearchAndItsBoundHolds) {
  int count = 0, proven = 0;
  double mean = 0, worst = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const double slack[] = {1.3, 1.7, 3};
    const StageTable table =
        TableOf(AnyInstance(seed + 100, 7 + static_cast<int>(seed % 4), 24, slack[seed % 3]));
    const std::optional<Assignment> exact = FindExact(table);
    SearchOptions options;
    options.price_work = 1e7;
    const SearchResult found = FindByPrices(table, options);
    if (!exact) {
      EXPECT_FALSE(found.assignment);
      continue;
    }
    ASSERT_TRUE(found.assignment);
    ExpectHolds(table, found.assignment->stages);
    const double total = found.assignment->total_cost;
    ASSERT_NEAR(total, TotalCost(table, found.assignment->stages), 1e-9 * total);
    const double above = total / exact->total_cost - 1;
    EXPECT_GE(above, -1e-11);
    EXPECT_LE(found.lower_bound, exact->total_cost * (1 + 1e-11));
    ++count;
    mean += above;
    worst = std::max(worst, above);
    if (found.lower_bound >= total * (1 - 1e-11)) {
      ++proven;
      EXPECT_LE(above, 1e-10);
    }
  }
  EXPECT_GT(count, 40);
  EXPECT_GT(proven, count / 2);
  EXPECT_LT(mean / count, 0.001);
  EXPECT_LT(worst, 0.01);
}

// ---- all layers alike ----

// n layers of 100 MB and 10 ms at speed 10,000, whose boundaries cost nothing.
Instance AlikeInstance(uint64_t seed, int worker_count, int layer_count, int most_layers) {
  Instance instance;
  instance.context.up = true;
  instance.layers.resize(static_cast<size_t>(layer_count));
  for (LayerCost& layer : instance.layers) {
    layer.weight_bytes = 100'000'000;
    layer.compute_cost = 1e8;
  }
  SeededRandom random(seed);
  for (int w = 0; w < worker_count; ++w) {
    WorkerMetrics worker;
    worker.memory_bytes =
        100'000'000 * (1 + random.Below(static_cast<uint64_t>(most_layers))) + random.Below(99);
    worker.compute_speed = 3000 + 60'000 * random.Uniform();
    worker.latency_us = 40'000 * random.Uniform();
    worker.bandwidth_down = worker.bandwidth_up = 10;
    instance.workers.push_back(worker);
  }
  return instance;
}

int MostLayers(const WorkerMetrics& worker) {
  return static_cast<int>(worker.memory_bytes / 100'000'000);
}

// One worker after the other takes any number of layers: the thesis' variant 4, exact since all
// orders are alike.
double LeastTime(const Instance& instance) {
  const size_t n = instance.layers.size();
  std::vector<double> best(n + 1, kInfinity);
  best[0] = 0;
  for (const WorkerMetrics& worker : instance.workers)
    for (size_t held = n; held > 0; --held)
      for (size_t own = 1; own <= std::min<size_t>(held, static_cast<size_t>(MostLayers(worker)));
           ++own)
        best[held] =
            std::min(best[held], best[held - own] + worker.latency_us + 500 +
                                     static_cast<double>(own) * 1e8 / worker.compute_speed);
  return best[n];
}

double LeastSlowest(const Instance& instance) {
  double low = 0, high = 1e9;
  const auto held_within = [&](double us) {
    double held = 0;
    for (const WorkerMetrics& worker : instance.workers)
      held += std::clamp<double>(std::floor((us - 500) * worker.compute_speed / 1e8 + 1e-9), 0,
                                 MostLayers(worker));
    return held >= static_cast<double>(instance.layers.size());
  };
  for (int i = 0; i < 200; ++i) (held_within((low + high) / 2) ? high : low) = (low + high) / 2;
  return high;
}

struct Size {
  int workers, layers, most_layers;
};
constexpr Size kLargeSizes[] = {
    {40, 60, 6}, {64, 80, 3}, {64, 80, 30}, {300, 90, 4}, {1000, 100, 8}};

TEST(FindPlanSizeTest, LargeSwarmsOfAlikeLayersAreSolvedToWithinAThousandthOfTheOptimum) {
  for (const Size& size : kLargeSizes) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(std::to_string(size.workers) + " workers, seed " + std::to_string(seed));
      const Instance instance = AlikeInstance(seed, size.workers, size.layers, size.most_layers);
      const double least = LeastTime(instance);
      const PlanOutcome outcome = FindPlan(instance.layers, instance.workers, instance.context);
      ASSERT_TRUE(outcome.plan) << outcome.problem;
      EXPECT_EQ(outcome.strategy, SearchStrategy::kPrices);
      EXPECT_GE(outcome.plan->total_cost, least * (1 - 1e-9));
      EXPECT_LE(outcome.plan->total_cost, least * 1.001);
      EXPECT_LE(outcome.lower_bound, least * (1 + 1e-9));
      EXPECT_LT(outcome.gap, 0.15);
      EXPECT_NEAR(outcome.gap, outcome.plan->total_cost / outcome.lower_bound - 1, 1e-9);
    }
  }
}

TEST(FindPlanSizeTest, ForThroughputTheSlowestStageOfLargeSwarmsIsNearlyTheLeast) {
  for (const Size& size : kLargeSizes) {
    SCOPED_TRACE(std::to_string(size.workers) + " workers");
    Instance instance = AlikeInstance(5, size.workers, size.layers, size.most_layers);
    instance.context.objective = Objective::kThroughput;
    const double least = LeastSlowest(instance);
    const PlanOutcome outcome = FindPlan(instance.layers, instance.workers, instance.context);
    ASSERT_TRUE(outcome.plan) << outcome.problem;
    EXPECT_EQ(outcome.plan->total_cost, outcome.plan->slowest_us);
    EXPECT_GE(outcome.plan->slowest_us, least * (1 - 1e-9));
    EXPECT_LE(outcome.plan->slowest_us, least * 1.02);
    EXPECT_LE(outcome.lower_bound, least * (1 + 1e-9));
    EXPECT_LT(outcome.gap, 0.5);
  }
}

TEST(FindPlanSizeTest, SameInputSamePlan) {
  const Instance instance = RandomPricedInstance(5, 40, 50, 4);
  const PlanOutcome first = FindPlan(instance.layers, instance.workers, instance.context);
  const PlanOutcome second = FindPlan(instance.layers, instance.workers, instance.context);
  ASSERT_TRUE(first.plan && second.plan);
  EXPECT_EQ(first.plan->total_cost, second.plan->total_cost);
  EXPECT_EQ(first.lower_bound, second.lower_bound);
  ASSERT_EQ(first.plan->stages.size(), second.plan->stages.size());
  for (size_t i = 0; i < first.plan->stages.size(); ++i)
    EXPECT_EQ(first.plan->stages[i].worker, second.plan->stages[i].worker);
}

TEST(FindPlanSizeTest, TheBoundHoldsForWorkersThatWereNotLookedAt) {
  // Of 400 workers 160 are looked at, and what the others could give must not be ruled out.
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Instance instance = AlikeInstance(seed + 50, 400, 60, 2);
    for (const Objective objective : {Objective::kLatency, Objective::kThroughput}) {
      instance.context.objective = objective;
      const PlanOutcome outcome = FindPlan(instance.layers, instance.workers, instance.context);
      ASSERT_TRUE(outcome.plan);
      const double least =
          objective == Objective::kLatency ? LeastTime(instance) : LeastSlowest(instance);
      EXPECT_LE(outcome.lower_bound, least * (1 + 1e-9));
      EXPECT_GE(outcome.plan->total_cost, least * (1 - 1e-9));
    }
  }
}

// ---- throughput ----

TEST(FindPlanTest, ForThroughputEqualsBruteForceOverAllOrdersAndCuts) {
  int complete = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance instance = RandomPricedInstance(seed, 1 + static_cast<int>(seed % 5),
                                             1 + static_cast<int>(seed / 5 % 7), 2);
    instance.context.objective = Objective::kThroughput;
    const auto [slowest_us, sum_us] = testing::Oracle(instance).BestThroughput();
    const PlanOutcome outcome = FindPlan(instance.layers, instance.workers, instance.context);
    ASSERT_EQ(outcome.plan.has_value(), slowest_us < kInfinity);
    if (!outcome.plan) continue;
    ++complete;
    EXPECT_NEAR(outcome.plan->slowest_us, slowest_us, 1e-9 * slowest_us);
    EXPECT_NEAR(outcome.plan->exec_us + outcome.plan->departure_us, sum_us, 1e-9 * sum_us);
    EXPECT_EQ(outcome.gap, 0);
    // The slowest stage is the least also where the sum is no longer looked for in all sets.
    instance.context.search.exact_worker_limit = 0;
    const PlanOutcome quick = FindPlan(instance.layers, instance.workers, instance.context);
    ASSERT_TRUE(quick.plan);
    EXPECT_EQ(quick.strategy, SearchStrategy::kPrices);
    EXPECT_NEAR(quick.plan->slowest_us, slowest_us, 1e-9 * slowest_us);
    EXPECT_EQ(quick.gap, 0);
    if (HasFailure()) return;
  }
  EXPECT_GT(complete, 1000);
}

}  // namespace
}  // namespace weft::planner
