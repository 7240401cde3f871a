// How long a plan takes: build/release/planner_bench (build it with `ninja planner_bench`).
// Every row runs over the same 16 random swarms per size: uneven memory, speeds within a factor of
// 16, latencies up to 40 ms, some layers cached, half of them Up. worst_ms is the slowest single
// plan.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>

#include "planner/exact_search.h"
#include "planner/order_search.h"
#include "planner/planner_testing.h"

namespace weft::planner {
namespace {

std::vector<testing::Instance> Swarms(const benchmark::State& state) {
  const int workers = static_cast<int>(state.range(0));
  const int layers = static_cast<int>(state.range(1));
  // Big swarms offer more in total, or no worker could hold even one layer.
  const double size = std::max(1.0, workers / 16.0);
  std::vector<testing::Instance> swarms;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    const double slack = seed % 2 == 0 ? 1.5 : 4;
    swarms.push_back(testing::RandomInstance(seed, workers, layers, slack * size, false));
  }
  return swarms;
}

// Runs `plan(swarm)` round robin, one swarm per iteration.
template <typename Run>
void OverSwarms(benchmark::State& state, const Run& plan) {
  const std::vector<testing::Instance> swarms = Swarms(state);
  size_t next = 0;
  double worst_ms = 0;
  for (auto _ : state) {
    const std::clock_t start = std::clock();
    plan(swarms[next++ % swarms.size()]);
    const double took_ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    worst_ms = std::max(worst_ms, took_ms);
  }
  state.counters["worst_ms"] = worst_ms;
}

void BM_FindPlan(benchmark::State& state) {
  OverSwarms(state, [](const testing::Instance& swarm) {
    benchmark::DoNotOptimize(FindPlan(swarm.layers, swarm.workers, swarm.context));
  });
}
BENCHMARK(BM_FindPlan)
    ->ArgNames({"workers", "layers"})
    ->ArgsProduct({{3, 6, 10, 12, 14, 16, 24, 32, 100}, {30, 38}})
    ->Unit(benchmark::kMillisecond);

// By default more than 14 workers are annealed; this is what being exact there would cost.
void BM_FindPlanExact16(benchmark::State& state) {
  OverSwarms(state, [](testing::Instance swarm) {
    swarm.context.search.exact_worker_limit = 16;
    benchmark::DoNotOptimize(FindPlan(swarm.layers, swarm.workers, swarm.context));
  });
}
BENCHMARK(BM_FindPlanExact16)
    ->ArgNames({"workers", "layers"})
    ->Args({16, 30})
    ->Unit(benchmark::kMillisecond);

void BM_FindStandby(benchmark::State& state) {
  std::vector<Plan> current;
  for (const testing::Instance& swarm : Swarms(state)) {
    current.push_back(FindPlan(swarm.layers, swarm.workers, swarm.context).plan.value_or(Plan{}));
  }
  size_t next = 0;
  OverSwarms(state, [&](const testing::Instance& swarm) {
    benchmark::DoNotOptimize(
        FindStandby(swarm.layers, swarm.workers, swarm.context, current[next++ % current.size()]));
  });
}
BENCHMARK(BM_FindStandby)
    ->ArgNames({"workers", "layers"})
    ->Args({6, 38})
    ->Args({12, 38})
    ->Unit(benchmark::kMillisecond);

// How far annealing stays above the optimum, in percent: mean and worst over the swarms.
void BM_AnnealingGap(benchmark::State& state) {
  double sum = 0, worst = 0;
  int count = 0;
  for (auto _ : state) {
    for (const testing::Instance& swarm : Swarms(state)) {
      PlanContext annealed = swarm.context;
      annealed.search.exact_worker_limit = 0;
      const PlanOutcome exact = FindPlan(swarm.layers, swarm.workers, swarm.context);
      const PlanOutcome found = FindPlan(swarm.layers, swarm.workers, annealed);
      if (!exact.plan || !found.plan) continue;
      const double gap = 100 * (found.plan->total_cost / exact.plan->total_cost - 1);
      sum += gap;
      worst = std::max(worst, gap);
      ++count;
    }
  }
  state.counters["mean_gap_percent"] = count > 0 ? sum / count : 0;
  state.counters["worst_gap_percent"] = worst;
  state.counters["swarms"] = count;
}
BENCHMARK(BM_AnnealingGap)
    ->ArgNames({"workers", "layers"})
    ->Args({10, 38})
    ->Args({14, 38})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::planner

BENCHMARK_MAIN();
