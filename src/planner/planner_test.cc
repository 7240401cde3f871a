// FindPlan, EvaluatePlan and AcceptPlan against the oracle of planner_testing.h and the rules of
// dynamic-graph-partitioning 5.1-5.3.
#include "planner/planner.h"
#include "planner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/planner_testing.h"

namespace weft::planner {
namespace {

using ::testing::HasSubstr;
using testing::Instance;
using testing::Oracle;
using testing::RandomInstance;
using testing::RandomPricedInstance;

constexpr double kNone = std::numeric_limits<double>::infinity();

PlanOutcome Find(const Instance& instance) {
  return FindPlan(instance.layers, instance.workers, instance.context);
}

// The constraints of 5.1.3, checked with the oracle's own memory formula.
void ExpectValid(const Instance& instance, const Plan& plan, int layer_count) {
  const Oracle oracle(instance);
  std::set<int> used;
  int covered = 0;
  for (const StageAssignment& stage : plan.stages) {
    EXPECT_EQ(stage.first_layer, covered);
    EXPECT_LT(stage.first_layer, stage.end_layer);
    covered = stage.end_layer;
    EXPECT_TRUE(used.insert(stage.worker).second) << "worker " << stage.worker << " twice";
    const uint64_t offer = instance.workers[static_cast<size_t>(stage.worker)].memory_bytes;
    EXPECT_LE(oracle.Memory(stage.worker, stage.first_layer, stage.end_layer),
              static_cast<double>(offer));
    EXPECT_LE(stage.memory_bytes, offer);
  }
  EXPECT_EQ(covered, layer_count);
}

// C_total of a plan's stages by the oracle.
double OracleCost(const Instance& instance, const Oracle& oracle, const Plan& plan) {
  double exec = 0, init_sum = 0, init_max = 0;
  for (const StageAssignment& stage : plan.stages) {
    exec += oracle.Exec(stage.worker, stage.first_layer, stage.end_layer) +
            oracle.Departure(stage.worker, stage.first_layer, stage.end_layer);
    const double init = oracle.Init(stage.worker, stage.first_layer, stage.end_layer);
    init_sum += init;
    init_max = std::max(init_max, init);
  }
  const double alpha = instance.context.constants.alpha;
  return exec + alpha * init_max + (1 - alpha) * init_sum;
}

void ExpectClose(double actual, double expected) {
  EXPECT_NEAR(actual, expected, 1e-9 * expected);
}

TEST(FindPlanTest, EqualsBruteForceOverAllOrdersAndCuts) {
  int complete = 0, incomplete = 0;
  for (uint64_t seed = 0; seed < 12'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int worker_count = 1 + static_cast<int>(seed % 5);
    const int layer_count = 1 + static_cast<int>(seed / 5 % 8);
    const double slack[] = {0.9, 1.3, 2, 5};
    const Instance instance = RandomInstance(seed, worker_count, layer_count, slack[seed / 40 % 4]);
    const Oracle oracle(instance);
    const double best = oracle.Best();
    const PlanOutcome outcome = Find(instance);
    ASSERT_EQ(outcome.plan.has_value(), best < kNone);
    if (outcome.plan) {
      ++complete;
      ExpectValid(instance, *outcome.plan, layer_count);
      ExpectClose(outcome.plan->total_cost, best);
      ExpectClose(outcome.plan->total_cost, OracleCost(instance, oracle, *outcome.plan));
      EXPECT_EQ(outcome.missing_memory_bytes, 0u);
      EXPECT_EQ(outcome.problem, "");
      EXPECT_EQ(outcome.strategy, SearchStrategy::kExact);
      EXPECT_EQ(outcome.plan->stages.size() + outcome.left_out.size(), instance.workers.size());
    } else {
      ++incomplete;
      EXPECT_THAT(outcome.problem, HasSubstr("memory"));
      const int depth = oracle.DeepestPrefix();
      ASSERT_EQ(outcome.partial.has_value(), depth > 0);
      if (outcome.partial) {
        ExpectValid(instance, *outcome.partial, depth);
        ExpectClose(outcome.partial->total_cost, oracle.Best(depth));
      }
    }
    if (HasFailure()) return;
  }
  // The instances must exercise both sides.
  EXPECT_GT(complete, 3000);
  EXPECT_GT(incomplete, 1500);
}

TEST(FindPlanTest, EqualsBruteForceWithLayersThatAreKeptTogether) {
  int complete = 0, incomplete = 0, several = 0;
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int worker_count = 1 + static_cast<int>(seed % 5);
    const int layer_count = 2 + static_cast<int>(seed / 5 % 8);
    const double slack = seed % 3 == 0 ? 1.5 : 4;
    Instance instance = seed % 2 == 0
                            ? RandomInstance(seed, worker_count, layer_count, slack)
                            : RandomPricedInstance(seed, worker_count, layer_count, slack);
    testing::KeepSomeTogether(seed, &instance);
    Oracle oracle(instance);
    const bool by_time = seed % 2 == 1 && instance.context.token_us == 0;
    const bool fits = oracle.Best() < kNone;
    if (by_time && fits) oracle.set_token_us(oracle.Best());
    const double best = oracle.Best();
    const PlanOutcome outcome = Find(instance);
    ASSERT_EQ(outcome.plan.has_value(), fits);
    if (!outcome.plan) {
      ++incomplete;
      const int depth = oracle.DeepestPrefix();
      ASSERT_EQ(outcome.partial.has_value(), depth > 0);
      if (outcome.partial) {
        ExpectValid(instance, *outcome.partial, depth);
        EXPECT_TRUE(oracle.MayCut(outcome.partial->stages.back().end_layer));
      }
      continue;
    }
    ++complete;
    several += outcome.plan->stages.size() > 1;
    ExpectValid(instance, *outcome.plan, layer_count);
    for (const StageAssignment& stage : outcome.plan->stages) {
      EXPECT_TRUE(oracle.MayCut(stage.end_layer));
    }
    ExpectClose(outcome.plan->total_cost, best);
    ExpectClose(outcome.plan->total_cost, OracleCost(instance, oracle, *outcome.plan));
    instance.context.objective = Objective::kThroughput;
    const PlanOutcome many = Find(instance);
    ASSERT_TRUE(many.plan);
    ExpectClose(many.plan->slowest_us, Oracle(instance).BestThroughput().first);
    if (HasFailure()) return;
  }
  EXPECT_GT(complete, 2000);
  EXPECT_GT(incomplete, 1000);
  EXPECT_GT(several, 400);
}

TEST(EvaluatePlanTest, RefusesACutThroughLayersThatAreKeptTogether) {
  Instance instance = RandomInstance(7, 2, 6, 5, false);
  for (WorkerMetrics& worker : instance.workers) worker.memory_bytes = 1ull << 40;
  const auto evaluate = [&](int cut) {
    std::vector<StageAssignment> stages(2);
    stages[0] = {.worker = 0, .first_layer = 0, .end_layer = cut};
    stages[1] = {.worker = 1, .first_layer = cut, .end_layer = 6};
    return EvaluatePlan(instance.layers, instance.workers, instance.context, stages);
  };
  ASSERT_TRUE(evaluate(3));
  instance.layers[3].with_previous = true;
  EXPECT_FALSE(evaluate(3));
  EXPECT_TRUE(evaluate(2));
  EXPECT_TRUE(evaluate(4));
  instance.layers[0].with_previous = true;
  EXPECT_THAT(Find(instance).problem, HasSubstr("Layer 0 is kept with a layer before it."));
}

TEST(FindPlanTest, EqualsBruteForceOnSevenWorkers) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Instance instance = RandomInstance(seed + 90'000, 7, 9, 1.5 + 0.2 * double(seed % 4));
    const double best = Oracle(instance).Best();
    const PlanOutcome outcome = Find(instance);
    ASSERT_EQ(outcome.plan.has_value(), best < kNone);
    if (outcome.plan) ExpectClose(outcome.plan->total_cost, best);
  }
}

TEST(FindPlanTest, EqualsBruteForceByThePricedRule) {
  int complete = 0, own_token_time = 0, up = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Instance instance = RandomPricedInstance(seed, 1 + static_cast<int>(seed % 5),
                                                   1 + static_cast<int>(seed / 5 % 7), 2);
    Oracle oracle(instance);
    if (instance.context.token_us == 0) oracle.set_token_us(oracle.Best());  // by time alone
    const PlanOutcome outcome = Find(instance);
    ASSERT_EQ(outcome.plan.has_value(), oracle.Best() < kNone);
    if (!outcome.plan) continue;
    ++complete;
    up += instance.context.up;
    own_token_time += instance.context.token_us == 0;
    ExpectValid(instance, *outcome.plan, static_cast<int>(instance.layers.size()));
    ExpectClose(outcome.plan->total_cost, oracle.Best());
    ExpectClose(outcome.plan->total_cost, OracleCost(instance, oracle, *outcome.plan));
    if (HasFailure()) return;
  }
  EXPECT_GT(complete, 2000);
  EXPECT_GT(own_token_time, 500);
  EXPECT_GT(up, 500);
}

// Two devices of one kind, and neither holds all. The fastest plans differ by nothing, or by what
// the devices were measured apart.
TEST(FindPlanTest, EvensOutStagesWhereOneStreamLosesNextToNothing) {
  Instance instance = RandomInstance(3, 2, 30, 4, false);
  for (LayerCost& layer : instance.layers) {
    layer = {};
    layer.weight_bytes = 50'000'000;
    layer.compute_cost = 5e7;
    layer.input_bytes = layer.output_bytes = 4096;
  }
  for (WorkerMetrics& worker : instance.workers) {
    worker = {};
    worker.memory_bytes = 1'300'000'000;
    worker.compute_speed = 250'000;
    worker.bandwidth_down = worker.bandwidth_up = 1000;
    worker.latency_us = 400;
  }
  instance.workers[1].compute_speed *= 0.97;
  instance.context = {};
  instance.context.up = true;  // loading does not count
  const Plan fastest = *Find(instance).plan;
  instance.context.balance = 0.02;
  const Plan even = *Find(instance).plan;
  ASSERT_EQ(even.stages.size(), 2u);
  EXPECT_NEAR(even.stages[0].end_layer, 15, 1);
  EXPECT_LE(even.total_cost, fastest.total_cost * 1.02);
  EXPECT_LT(even.slowest_us, 0.9 * fastest.slowest_us) << "the faster one has what it can hold";
}

TEST(AcceptEvenMoveTest, EvensOutWhereManyStreamsGainMoreThanOneLoses) {
  Plan uneven, even;
  uneven.total_cost = 6000;
  uneven.slowest_us = 4400;
  even.total_cost = 6060;
  even.slowest_us = 3000;
  PlanContext context;
  context.balance = 0.02;
  MovePrice price;
  price.bytes = 300'000'000;
  EXPECT_FALSE(AcceptMove(even, uneven.total_cost, price, context));
  EXPECT_TRUE(AcceptEvenMove(even, uneven, price, context));
  price.pause_us = context.expected_stable_us;
  EXPECT_FALSE(AcceptEvenMove(even, uneven, price, context)) << "the next change comes before";
  price.pause_us = 0;
  even.total_cost = 6200;
  EXPECT_FALSE(AcceptEvenMove(even, uneven, price, context)) << "one stream would feel it";
  uneven.stages.resize(2);
  context.conversations = 2;
  EXPECT_TRUE(AcceptEvenMove(even, uneven, price, context)) << "a round took two of them 8800";
  even.total_cost = 6000;
  even.slowest_us = 4300;
  EXPECT_FALSE(AcceptEvenMove(even, uneven, price, context)) << "no more than noise";
}

// 30 layers that take one device 0.2 ms each and the other one 0.3: a round of two streams takes
// twice the slowest stage, until boundaries have moved as far as that is worth it.
TEST(EvenedOutTest, MovesTheBoundaryOfAPlanThatServes) {
  std::vector<LayerCost> layers(30);
  for (LayerCost& layer : layers) {
    layer.weight_bytes = 50'000'000;
    layer.compute_cost = 5e7;
  }
  std::vector<WorkerMetrics> workers(2);
  for (WorkerMetrics& worker : workers) worker.memory_bytes = 1'300'000'000;
  workers[0].compute_speed = 250'000;
  workers[1].compute_speed = 5e7 / 300;
  PlanContext context;
  context.up = true;
  context.conversations = 2;
  std::vector<StageAssignment> stages(2);
  stages[0].end_layer = stages[1].first_layer = 6;
  stages[1].worker = 1;
  stages[1].end_layer = 30;
  const auto even = EvenedOut(layers, workers, context, stages);
  ASSERT_TRUE(even);
  EXPECT_EQ(even->stages[0].end_layer, 18);
  EXPECT_EQ(even->stages[1].worker, 1);
  stages[1].first_layer = 7;
  EXPECT_FALSE(EvenedOut(layers, workers, context, stages)) << "a layer is nobody's";
}

TEST(FindPlanTest, AnEvenPlanStaysWithinItsShareAndItsMemory) {
  int evened = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Instance instance = RandomInstance(seed, 4, 12, 1.6);
    const PlanOutcome fastest = Find(instance);
    if (!fastest.plan) continue;
    instance.context.balance = 0.05;
    const PlanOutcome even = Find(instance);
    ASSERT_TRUE(even.plan.has_value()) << seed;
    ExpectValid(instance, *even.plan, 12);
    EXPECT_LE(even.plan->total_cost, fastest.plan->total_cost * 1.05 * (1 + 1e-9)) << seed;
    EXPECT_LE(even.plan->slowest_us, fastest.plan->slowest_us) << seed;
    evened += even.plan->slowest_us < fastest.plan->slowest_us * 0.99;
  }
  EXPECT_GT(evened, 20);
}

TEST(FindPlanTest, MissingMemoryIsExactlyWhatOneMoreDeviceNeeds) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance instance = RandomInstance(seed + 5000, 1 + static_cast<int>(seed % 4), 6, 0.8);
    const PlanOutcome outcome = Find(instance);
    if (outcome.plan) continue;
    ++checked;
    ASSERT_GT(outcome.missing_memory_bytes, 0u);
    WorkerMetrics extra;
    extra.weight_factor = 0;
    bool any_able = false;
    for (size_t w = 0; w < instance.workers.size(); ++w) {
      bool able = false;
      for (int i = 0; i < 6; ++i) able |= Oracle(instance).Allowed(static_cast<int>(w), i, i + 1);
      any_able |= able;
      if (able) {
        extra.weight_factor = std::max(extra.weight_factor, instance.workers[w].weight_factor);
      }
    }
    if (!any_able) extra.weight_factor = 1;
    instance.workers.push_back(extra);
    instance.workers.back().memory_bytes = outcome.missing_memory_bytes;
    EXPECT_LT(Oracle(instance).Best(), kNone);
    instance.workers.back().memory_bytes = outcome.missing_memory_bytes - 1;
    EXPECT_EQ(Oracle(instance).Best(), kNone);
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 200);
}

// 5.3.1: layers of 16 GB and 1 GB fit workers of 8 GB and 16 GB in one of the two orders only.
TEST(FindPlanTest, SolvesThePapersOrderingCounterexample) {
  Instance instance;
  instance.layers.resize(2);
  instance.layers[0].weight_bytes = 16'000'000'000;
  instance.layers[1].weight_bytes = 1'000'000'000;
  instance.workers.resize(2);
  instance.workers[0].memory_bytes = 8'000'000'000;
  instance.workers[1].memory_bytes = 16'000'000'000;
  for (const int exact_limit : {14, 0}) {
    instance.context.search.exact_worker_limit = exact_limit;
    const PlanOutcome outcome = Find(instance);
    ASSERT_TRUE(outcome.plan);
    ASSERT_EQ(outcome.plan->stages.size(), 2u);
    EXPECT_EQ(outcome.plan->stages[0].worker, 1);
    EXPECT_EQ(outcome.plan->stages[1].worker, 0);
  }
}

// A model of 4 equal layers; workers that differ only in what a test changes.
Instance SimpleInstance(int worker_count) {
  Instance instance;
  instance.context.rule = PlanRule::kThesis;
  instance.layers.resize(4);
  for (LayerCost& layer : instance.layers) {
    layer.weight_bytes = 100'000'000;
    layer.compute_cost = 1e8;
    layer.input_bytes = layer.output_bytes = 2000;
  }
  instance.workers.resize(static_cast<size_t>(worker_count));
  for (WorkerMetrics& worker : instance.workers) {
    worker.memory_bytes = 1'000'000'000;
    worker.compute_speed = 10'000;
    worker.bandwidth_down = worker.bandwidth_up = 10;
    worker.latency_us = 1000;
    worker.session_overhead_us = 300;
  }
  return instance;
}

TEST(FindPlanTest, PredictsByTheFormulas) {
  Instance instance = SimpleInstance(1);
  instance.workers[0].cached_layers = {false, true, false, false};
  const PlanOutcome outcome = Find(instance);
  ASSERT_TRUE(outcome.plan);
  ASSERT_EQ(outcome.plan->stages.size(), 1u);
  const StageAssignment& stage = outcome.plan->stages[0];
  EXPECT_DOUBLE_EQ(stage.overhead_us, 300 + 500);
  EXPECT_DOUBLE_EQ(stage.compute_us, 4e8 / 1e4);
  EXPECT_DOUBLE_EQ(stage.transfer_us, 1000 + 200 + 200);
  EXPECT_DOUBLE_EQ(stage.exec_us, 800 + 40'000 + 1400);
  EXPECT_DOUBLE_EQ(stage.init_us, 1e6 + 3e8 / 10);
  EXPECT_DOUBLE_EQ(stage.init_cost, std::pow(31e6, 0.9));
  EXPECT_EQ(stage.download_bytes, 300'000'000u);
  EXPECT_EQ(stage.memory_bytes, 400'000'000u);
  EXPECT_DOUBLE_EQ(outcome.plan->total_cost, 42'200 + std::pow(31e6, 0.9));
  EXPECT_DOUBLE_EQ(outcome.plan->exec_us, 42'200);
}

TEST(FindPlanTest, GivesNoLayersToAWorkerThatWouldSlowTheSwarm) {
  Instance instance = SimpleInstance(2);
  instance.workers[1].latency_us = 50'000;
  for (WorkerMetrics& worker : instance.workers) worker.cached_layers.assign(4, true);
  const PlanOutcome outcome = Find(instance);
  ASSERT_TRUE(outcome.plan);
  ASSERT_EQ(outcome.plan->stages.size(), 1u);
  EXPECT_EQ(outcome.plan->stages[0].worker, 0);
  ASSERT_EQ(outcome.left_out.size(), 1u);
  EXPECT_EQ(outcome.left_out[0].worker, 1);
  EXPECT_THAT(outcome.left_out[0].reason, HasSubstr("slow the swarm"));
}

TEST(FindPlanTest, InitCostDecidesAtFirstAndFadesWithTime) {
  // Worker 0 has everything cached; worker 1 computes twice as fast but would download for 40 s.
  Instance instance = SimpleInstance(2);
  instance.workers[0].cached_layers.assign(4, true);
  instance.workers[1].compute_speed *= 2;
  instance.context.up = true;
  instance.context.since_redistribution = Seconds(0);
  EXPECT_EQ(Find(instance).plan->stages[0].worker, 0);
  EXPECT_THAT(Find(instance).left_out[0].reason, HasSubstr("not worth that now"));
  instance.context.since_redistribution = Seconds(600);
  EXPECT_EQ(Find(instance).plan->stages[0].worker, 1);
}

TEST(FindPlanTest, ByThePricedRuleLoadingDecidesOnlyWhileNothingServes) {
  // As above: 42 ms per token now, or 22 ms after 40 s.
  Instance instance = SimpleInstance(2);
  instance.context.rule = PlanRule::kPriced;
  instance.workers[0].cached_layers.assign(4, true);
  instance.workers[1].compute_speed *= 2;
  instance.context.expected_stable_us = 600e6;
  EXPECT_EQ(Find(instance).plan->stages[0].worker, 1);
  instance.context.expected_stable_us = 30e6;
  EXPECT_EQ(Find(instance).plan->stages[0].worker, 0);
  instance.context.up = true;
  EXPECT_EQ(Find(instance).plan->stages[0].worker, 1);
}

TEST(FindPlanTest, AWorkerThatLeavesOftenHasToBeMuchFaster) {
  Instance instance = SimpleInstance(2);
  instance.context.rule = PlanRule::kPriced;
  instance.context.up = true;
  instance.workers[1].compute_speed *= 1.25;
  instance.context.repair_us = 5e6;
  EXPECT_EQ(Find(instance).plan->stages[0].worker, 1);
  instance.workers[1].departures_per_s = 1.0 / 15;  // a third of the time goes into repairs
  const PlanOutcome outcome = Find(instance);
  EXPECT_EQ(outcome.plan->stages[0].worker, 0);
  EXPECT_THAT(outcome.left_out[0].reason, HasSubstr("it leaves too often"));
  instance.workers[0].departures_per_s = 1.0 / 15;
  EXPECT_EQ(Find(instance).plan->stages[0].worker, 1);
}

TEST(FindPlanTest, TiedWeightsCountOnceWithinAStage) {
  Instance instance = SimpleInstance(1);
  instance.layers[3].tied_to = 0;
  instance.layers[3].tied_bytes = 100'000'000;
  instance.workers[0].memory_bytes = 300'000'000;
  PlanOutcome outcome = Find(instance);
  ASSERT_TRUE(outcome.plan);
  EXPECT_EQ(outcome.plan->stages[0].memory_bytes, 300'000'000u);
  EXPECT_EQ(outcome.plan->stages[0].download_bytes, 300'000'000u);
  instance.layers[3].tied_to = -1;
  outcome = Find(instance);
  EXPECT_FALSE(outcome.plan);
  EXPECT_EQ(outcome.missing_memory_bytes, 100'000'000u);
}

TEST(FindPlanTest, SaysHowMuchMemoryIsMissing) {
  Instance instance = SimpleInstance(2);
  instance.workers[0].memory_bytes = 199'999'999;
  instance.workers[1].memory_bytes = 100'000'000;
  const PlanOutcome outcome = Find(instance);
  EXPECT_FALSE(outcome.plan);
  EXPECT_EQ(outcome.missing_memory_bytes, 200'000'000u);
  EXPECT_EQ(outcome.problem,
            "The model needs 200.0 MB more memory: the workers can hold the "
            "embedding and layer 1 of 2 between embedding and head.");
  ASSERT_TRUE(outcome.partial);
  EXPECT_EQ(outcome.partial->stages.back().end_layer, 2);
}

TEST(FindPlanTest, NoWorkersIsAClearProblem) {
  Instance instance = SimpleInstance(0);
  const PlanOutcome outcome = Find(instance);
  EXPECT_FALSE(outcome.plan);
  EXPECT_FALSE(outcome.partial);
  EXPECT_EQ(outcome.missing_memory_bytes, 400'000'000u);
  EXPECT_EQ(outcome.problem, "No worker is connected; the model needs 400.0 MB of memory.");
}

TEST(FindPlanTest, SenselessMetricsExcludeTheWorkerAndSayWhy) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<std::function<void(WorkerMetrics&)>, std::string>> faults = {
      {[&](WorkerMetrics& w) { w.compute_speed = nan; }, "compute speed is nan"},
      {[&](WorkerMetrics& w) { w.compute_speed = 0; }, "compute speed is 0"},
      {[&](WorkerMetrics& w) { w.compute_speed = kNone; }, "compute speed is inf"},
      {[&](WorkerMetrics& w) { w.bandwidth_down = -1; }, "download bandwidth is -1"},
      {[&](WorkerMetrics& w) { w.bandwidth_up = nan; }, "upload bandwidth is nan"},
      {[&](WorkerMetrics& w) { w.latency_us = nan; }, "latency is nan"},
      {[&](WorkerMetrics& w) { w.session_overhead_us = kNone; }, "session overhead is inf"},
      {[&](WorkerMetrics& w) { w.weight_factor = -kNone; }, "weight factor is -inf"},
      {[&](WorkerMetrics& w) { w.session_init_us = nan; }, "session start time is nan"},
      {[&](WorkerMetrics& w) { w.load_bytes_per_us = -1; }, "loading rate is -1"},
      {[&](WorkerMetrics& w) { w.batch_gain = 0.5; }, "batch gain is 0.5"},
      {[&](WorkerMetrics& w) { w.departures_per_s = nan; }, "rate of departures is nan"},
      {[&](WorkerMetrics& w) { w.memory_bytes = 0; }, "0 B that it offers"},
  };
  for (const auto& [spoil, reason] : faults) {
    SCOPED_TRACE(reason);
    Instance instance = SimpleInstance(2);
    instance.workers[0].compute_speed = 100'000;
    spoil(instance.workers[0]);
    PlanOutcome outcome = Find(instance);
    ASSERT_TRUE(outcome.plan);
    EXPECT_EQ(outcome.plan->stages[0].worker, 1);
    ASSERT_EQ(outcome.left_out.size(), 1u);
    EXPECT_THAT(outcome.left_out[0].reason, HasSubstr(reason));
    instance.workers.pop_back();
    outcome = Find(instance);
    EXPECT_FALSE(outcome.plan);
    EXPECT_EQ(outcome.missing_memory_bytes, 400'000'000u);
    EXPECT_THAT(outcome.problem, HasSubstr("None of the workers can run a layer"));
    ASSERT_EQ(outcome.left_out.size(), 1u);
  }
}

TEST(FindPlanTest, ExtremeButFiniteNumbersNeitherCrashNorOverflow) {
  Instance instance = SimpleInstance(2);
  for (LayerCost& layer : instance.layers) {
    layer.weight_bytes = layer.kv_bytes = layer.scratch_bytes = UINT64_MAX;
    layer.input_bytes = layer.output_bytes = UINT64_MAX;
    layer.compute_cost = 1e24;
  }
  instance.workers[0].memory_bytes = UINT64_MAX;
  instance.workers[1].compute_speed = 1e-9;
  instance.workers[1].bandwidth_down = instance.workers[1].bandwidth_up = 1e-9;
  instance.workers[1].latency_us = 1e24;
  PlanOutcome outcome = Find(instance);
  EXPECT_FALSE(outcome.plan);
  EXPECT_EQ(outcome.missing_memory_bytes, UINT64_MAX);
  for (LayerCost& layer : instance.layers) layer.weight_bytes = 1, layer.kv_bytes = 0;
  for (LayerCost& layer : instance.layers) layer.scratch_bytes = 0;
  instance.workers[0].memory_bytes = 2;
  instance.workers[1].memory_bytes = 2;
  outcome = Find(instance);
  ASSERT_TRUE(outcome.plan);
  EXPECT_TRUE(std::isfinite(outcome.plan->total_cost));
}

TEST(FindPlanTest, SenselessLayersAndConstantsAreProblems) {
  const auto problem_of = [](const std::function<void(Instance&)>& spoil) {
    Instance instance = SimpleInstance(2);
    spoil(instance);
    const PlanOutcome outcome = Find(instance);
    EXPECT_FALSE(outcome.plan);
    EXPECT_FALSE(EvaluatePlan(instance.layers, instance.workers, instance.context,
                              {{.worker = 0, .first_layer = 0, .end_layer = 4}}));
    return outcome.problem;
  };
  EXPECT_EQ(problem_of([](Instance& i) { i.layers.clear(); }), "The model has no layers.");
  EXPECT_THAT(problem_of([](Instance& i) { i.layers[2].compute_cost = -1; }),
              HasSubstr("Layer 2 has compute cost -1"));
  EXPECT_THAT(problem_of([](Instance& i) { i.layers[1].tied_to = 1; }),
              HasSubstr("expected an earlier layer"));
  EXPECT_THAT(problem_of([](Instance& i) {
                i.layers[3].tied_to = 0;
                i.layers[3].tied_bytes = 100'000'001;
              }),
              HasSubstr("more than one of them has"));
  EXPECT_THAT(problem_of([](Instance& i) { i.layers.resize(1001); }), HasSubstr("1001 layers"));
  EXPECT_THAT(problem_of([](Instance& i) { i.context.constants.alpha = 1.5; }),
              HasSubstr("alpha is 1.5"));
  EXPECT_THAT(problem_of([](Instance& i) { i.context.constants.gamma = std::nan(""); }),
              HasSubstr("gamma"));
  EXPECT_THAT(problem_of([](Instance& i) { i.context.constants.t_sharp = {}; }),
              HasSubstr("t_sharp"));
  EXPECT_THAT(problem_of([](Instance& i) { i.context.expected_stable_us = 0; }),
              HasSubstr("next change is 0 us"));
  EXPECT_THAT(problem_of([](Instance& i) { i.context.repair_us = -1; }), HasSubstr("-1"));
}

TEST(FindPlanTest, IsDeterministicAndIndifferentToTheOrderOfWorkers) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Instance instance = RandomInstance(seed + 777, 6, 20, 2);
    const PlanOutcome first = Find(instance), second = Find(instance);
    ASSERT_EQ(ExplainPlan(instance.layers, instance.workers, first),
              ExplainPlan(instance.layers, instance.workers, second));
    std::reverse(instance.workers.begin(), instance.workers.end());
    const PlanOutcome reversed = Find(instance);
    ASSERT_EQ(first.plan.has_value(), reversed.plan.has_value());
    if (first.plan) ExpectClose(reversed.plan->total_cost, first.plan->total_cost);
  }
}

TEST(EvaluatePlanTest, AgreesWithFindPlanAndFollowsNewMeasurements) {
  Instance instance = RandomInstance(3, 4, 8, 2);
  const PlanOutcome outcome = Find(instance);
  ASSERT_TRUE(outcome.plan);
  auto evaluated =
      EvaluatePlan(instance.layers, instance.workers, instance.context, outcome.plan->stages);
  ASSERT_TRUE(evaluated);
  EXPECT_EQ(evaluated->total_cost, outcome.plan->total_cost);
  const StageAssignment& stage = outcome.plan->stages[0];
  instance.workers[static_cast<size_t>(stage.worker)].compute_speed /= 2;
  evaluated =
      EvaluatePlan(instance.layers, instance.workers, instance.context, outcome.plan->stages);
  ExpectClose(evaluated->exec_us, outcome.plan->exec_us + stage.compute_us);
}

TEST(EvaluatePlanTest, RefusesStagesThatBreakAConstraint) {
  Instance instance = SimpleInstance(2);
  instance.workers[1].memory_bytes = 100'000'000;
  const auto evaluate = [&](std::vector<StageAssignment> stages) {
    return EvaluatePlan(instance.layers, instance.workers, instance.context, stages);
  };
  EXPECT_TRUE(evaluate({{0, 0, 3}, {1, 3, 4}}));
  EXPECT_FALSE(evaluate({}));
  EXPECT_FALSE(evaluate({{0, 0, 2}, {1, 2, 4}})) << "memory";
  EXPECT_FALSE(evaluate({{0, 0, 2}, {0, 2, 4}})) << "worker twice";
  EXPECT_FALSE(evaluate({{0, 0, 2}, {1, 3, 4}})) << "gap";
  EXPECT_FALSE(evaluate({{0, 1, 4}})) << "does not start at 0";
  EXPECT_FALSE(evaluate({{0, 0, 5}})) << "beyond the last layer";
  EXPECT_FALSE(evaluate({{2, 0, 4}})) << "unknown worker";
  EXPECT_FALSE(evaluate({{-1, 0, 4}})) << "unknown worker";
  instance.workers[0].compute_speed = 0;
  EXPECT_FALSE(evaluate({{0, 0, 4}})) << "unusable worker";
}

TEST(AcceptPlanTest, NeedsToBeFivePercentBetterThanTheCurrentExecution) {
  Plan candidate;
  candidate.total_cost = 94.9;
  EXPECT_TRUE(AcceptPlan(candidate, 100, {}));
  candidate.total_cost = 95;
  EXPECT_FALSE(AcceptPlan(candidate, 100, {}));
  EXPECT_TRUE(AcceptPlan(candidate, kNone, {}));
  PlanContext eager;
  eager.constants.tau = 1;
  EXPECT_TRUE(AcceptPlan(candidate, 100, eager));
}

TEST(AcceptPlanTest, NeverReplacesAPlanByItself) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Instance instance = RandomInstance(seed, 4, 8, 2);
    instance.context.up = true;
    instance.context.since_redistribution = Seconds(10'000);
    const PlanOutcome outcome = Find(instance);
    if (!outcome.plan) continue;
    EXPECT_FALSE(AcceptPlan(*outcome.plan, outcome.plan->exec_us, instance.context));
  }
}

}  // namespace
}  // namespace weft::planner
