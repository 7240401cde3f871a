// For the planner's tests: random swarms, and an oracle that shares no code with the planner - the
// formulas of dynamic-graph-partitioning 5.2 written out once more, and every permutation of every
// subset of the workers with every cut.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/random.h"
#include "planner/planner.h"

namespace weft::planner::testing {

struct Instance {
  std::vector<LayerCost> layers;
  std::vector<WorkerMetrics> workers;
  PlanContext context;
};

// `slack`: the workers' memory together as a multiple of what the model needs, before it is divided
// unevenly. `oddities`: now and then a worker equal to another, or without memory.
inline Instance RandomInstance(uint64_t seed, int worker_count, int layer_count, double slack,
                               bool oddities = true) {
  SeededRandom random(seed * 2654435761u + 17);
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.Uniform();
  };
  Instance instance;
  double needed = 0;
  for (int i = 0; i < layer_count; ++i) {
    const bool outer = i == 0 || i == layer_count - 1;
    LayerCost layer;
    layer.weight_bytes = static_cast<uint64_t>(outer ? between(5e7, 2e8) : between(4e7, 6e7));
    layer.compute_cost = i == 0 ? 1e4 : static_cast<double>(layer.weight_bytes);
    layer.kv_bytes = outer ? 0 : 16'000'000;
    layer.scratch_bytes = random.Below(8'000'000);
    layer.input_bytes = i == 0 ? 4 : 2048;
    layer.output_bytes = i == layer_count - 1 ? 8 : 2048;
    needed += 1.2 * static_cast<double>(layer.weight_bytes + layer.kv_bytes);
    instance.layers.push_back(layer);
  }
  if (layer_count >= 2 && random.Below(3) == 0) {
    LayerCost& head = instance.layers.back();
    head.tied_to = 0;
    head.tied_bytes = std::min(head.weight_bytes, instance.layers[0].weight_bytes) / 2;
  }
  for (int w = 0; w < worker_count; ++w) {
    WorkerMetrics worker;
    worker.memory_bytes = static_cast<uint64_t>(needed * slack / worker_count * between(0.2, 1.8));
    worker.weight_factor = between(1, 1.5);
    worker.session_overhead_us = between(-200, 4000);
    worker.compute_speed = between(3e3, 5e4);
    worker.bandwidth_down = between(0.5, 60);
    worker.bandwidth_up = between(0.3, 20);
    worker.latency_us = between(200, 40'000);
    if (random.Below(4) == 0) worker.session_init_us = between(0, 5e5);
    if (random.Below(2) == 0) {
      for (int i = 0; i < layer_count; ++i) worker.cached_layers.push_back(random.Below(3) == 0);
    }
    if (oddities && random.Below(5) == 0 && w > 0) worker = instance.workers.back();  // twins
    if (oddities && random.Below(25) == 0) worker.memory_bytes = 0;
    instance.workers.push_back(worker);
  }
  PlanContext& context = instance.context;
  context.rule = PlanRule::kThesis;
  context.up = random.Below(2) == 0;
  context.since_redistribution = Seconds(static_cast<int64_t>(random.Below(200)));
  const double alphas[] = {0.8, 0.8, 0, 1, random.Uniform()};
  context.constants.alpha = alphas[random.Below(5)];
  return instance;
}

// By the priced rule, with what only that rule looks at.
inline Instance RandomPricedInstance(uint64_t seed, int worker_count, int layer_count,
                                     double slack) {
  Instance instance = RandomInstance(seed, worker_count, layer_count, slack);
  SeededRandom random(seed + 99);
  PlanContext& context = instance.context;
  context.rule = PlanRule::kPriced;
  context.expected_stable_us = 1e6 + 6e8 * random.Uniform();
  context.repair_us = 3e7 * random.Uniform();
  if (random.Below(2) == 0) context.token_us = 1e5 * random.Uniform();
  if (random.Below(2) == 0) context.repair_bytes_per_us = 10 + 100 * random.Uniform();
  for (WorkerMetrics& worker : instance.workers) {
    if (random.Below(2) == 0) worker.load_bytes_per_us = 100 + 1000 * random.Uniform();
    if (random.Below(2) == 0) worker.departures_per_s = 0.01 * random.Uniform();
  }
  return instance;
}

// With one to three ranges of layers that are kept together.
inline void KeepSomeTogether(uint64_t seed, Instance* instance) {
  SeededRandom random(seed * 31 + 5);
  const size_t n = instance->layers.size();
  for (uint64_t i = 0; i <= random.Below(3); ++i) {
    const size_t first = random.Below(n - 1), length = 1 + random.Below(n / 2);
    for (size_t layer = first + 1; layer <= std::min(first + length, n - 1); ++layer) {
      instance->layers[layer].with_previous = true;
    }
  }
}

// The formulas, term by term.
class Oracle {
 public:
  explicit Oracle(const Instance& instance)
      : instance_(instance), token_us_(instance.context.token_us) {}

  double Memory(int w, int first, int end) const {
    double weights = 0, kv = 0, scratch = 0;
    for (int i = first; i < end; ++i) {
      const LayerCost& layer = Layer(i);
      weights += static_cast<double>(layer.weight_bytes);
      if (layer.tied_to >= first) weights -= static_cast<double>(layer.tied_bytes);
      kv += static_cast<double>(layer.kv_bytes);
      scratch = std::max(scratch, static_cast<double>(layer.scratch_bytes));
    }
    return std::ceil(Worker(w).weight_factor * weights) + kv + scratch;
  }
  bool MayCut(int layer) const {
    return layer == static_cast<int>(instance_.layers.size()) || !Layer(layer).with_previous;
  }
  bool Allowed(int w, int first, int end) const {
    return Memory(w, first, end) <= static_cast<double>(Worker(w).memory_bytes);
  }
  double Exec(int w, int first, int end) const {
    const WorkerMetrics& worker = Worker(w);
    double ops = 0;
    for (int i = first; i < end; ++i) ops += Layer(i).compute_cost;
    return std::max(0.0, worker.session_overhead_us) + ops / worker.compute_speed +
           instance_.context.constants.delta_us + worker.latency_us +
           static_cast<double>(Layer(first).input_bytes) / worker.bandwidth_down +
           static_cast<double>(Layer(end - 1).output_bytes) / worker.bandwidth_up;
  }
  double Init(int w, int first, int end) const {
    const WorkerMetrics& worker = Worker(w);
    const CostConstants& constants = instance_.context.constants;
    double bytes = 0;
    for (int i = first; i < end; ++i) {
      if (Cached(w, i)) continue;
      bytes += static_cast<double>(Layer(i).weight_bytes);
      const int tied = Layer(i).tied_to;
      if (tied >= 0 && (Cached(w, tied) || tied >= first)) {
        bytes -= static_cast<double>(Layer(i).tied_bytes);
      }
    }
    double us = worker.session_init_us.value_or(constants.sigma_us) + bytes / worker.bandwidth_down;
    double loaded = 0;
    for (int i = first; i < end; ++i) {
      loaded += static_cast<double>(Layer(i).weight_bytes);
      if (Layer(i).tied_to >= first) loaded -= static_cast<double>(Layer(i).tied_bytes);
    }
    if (worker.load_bytes_per_us > 0) us += loaded / worker.load_bytes_per_us;
    if (instance_.context.rule == PlanRule::kPriced) {
      return instance_.context.up ? 0 : us * token_us_ / instance_.context.expected_stable_us;
    }
    const double t = instance_.context.since_redistribution.seconds();
    const double rho =
        1 - 1 / (1 + std::exp(-(t - constants.t_mid.seconds()) / constants.t_sharp.seconds()));
    return instance_.context.up ? std::pow(us, constants.gamma) * rho
                                : std::pow(us, constants.gamma_block);
  }

  // Expected downtime per token.
  double Departure(int w, int first, int end) const {
    const PlanContext& context = instance_.context;
    if (context.rule == PlanRule::kThesis) return 0;
    double repair_us = context.repair_us;
    for (int i = first; i < end && context.repair_bytes_per_us > 0; ++i) {
      repair_us += static_cast<double>(Layer(i).weight_bytes) / context.repair_bytes_per_us;
    }
    return Worker(w).departures_per_s * token_us_ / 1e6 * repair_us;
  }
  // Of the priced rule; of the context unless it is set.
  void set_token_us(double token_us) { token_us_ = token_us; }

  // The least C_total over all assignments of exactly [0, layer_count); infinity if there is none.
  double Best(int layer_count) const {
    double best = std::numeric_limits<double>::infinity();
    std::vector<bool> used(instance_.workers.size(), false);
    const double alpha = instance_.context.constants.alpha;
    const std::function<void(int, double, double, double)> extend =
        [&](int covered, double exec, double init_sum, double init_max) {
          if (covered == layer_count) {
            best = std::min(best, exec + alpha * init_max + (1 - alpha) * init_sum);
            return;
          }
          for (size_t i = 0; i < used.size(); ++i) {
            const int w = static_cast<int>(i);
            if (used[i]) continue;
            used[i] = true;
            for (int end = covered + 1; end <= layer_count; ++end) {
              if (!Allowed(w, covered, end)) break;
              if (!MayCut(end)) continue;
              const double init = Init(w, covered, end);
              extend(end, exec + Exec(w, covered, end) + Departure(w, covered, end),
                     init_sum + init, std::max(init_max, init));
            }
            used[i] = false;
          }
        };
    extend(0, 0, 0, 0);
    return best;
  }
  double Best() const { return Best(static_cast<int>(instance_.layers.size())); }

  // A token's time on the worker and its link, as if in the middle of a pipeline.
  double Busy(int w, int first, int end) const {
    const WorkerMetrics& worker = Worker(w);
    double ops = 0, input = 0, output = 0;
    for (int i = first; i < end; ++i) ops += Layer(i).compute_cost;
    for (const LayerCost& layer : instance_.layers) {
      input = std::max(input, static_cast<double>(layer.input_bytes));
      output = std::max(output, static_cast<double>(layer.output_bytes));
    }
    return std::max(0.0, worker.session_overhead_us) + instance_.context.constants.delta_us +
           ops / worker.compute_speed + input / worker.bandwidth_down +
           output / worker.bandwidth_up;
  }
  // The least slowest stage, and the least exec and departures of those that have it.
  std::pair<double, double> BestThroughput() const {
    const double none = std::numeric_limits<double>::infinity();
    std::pair<double, double> best = {none, none};
    std::vector<bool> used(instance_.workers.size(), false);
    const int layer_count = static_cast<int>(instance_.layers.size());
    const std::function<void(int, double, double)> extend = [&](int covered, double slowest,
                                                                double sum) {
      if (covered == layer_count) {
        // Equal but for rounding.
        if (slowest < best.first * (1 - 1e-12) || (best.first == none && slowest < none)) {
          best = {slowest, sum};
        } else if (slowest <= best.first * (1 + 1e-12)) {
          best.second = std::min(best.second, sum);
        }
        return;
      }
      for (size_t i = 0; i < used.size(); ++i) {
        const int w = static_cast<int>(i);
        if (used[i]) continue;
        used[i] = true;
        for (int end = covered + 1; end <= layer_count && Allowed(w, covered, end); ++end) {
          if (!MayCut(end)) continue;
          extend(end, std::max(slowest, Busy(w, covered, end)),
                 sum + Exec(w, covered, end) + Departure(w, covered, end));
        }
        used[i] = false;
      }
    };
    extend(0, 0, 0);
    return best;
  }

  // The deepest prefix that any assignment covers.
  int DeepestPrefix() const {
    int covered = static_cast<int>(instance_.layers.size());
    while (covered > 0 && Best(covered) == std::numeric_limits<double>::infinity()) --covered;
    return covered;
  }

 private:
  const LayerCost& Layer(int i) const { return instance_.layers[static_cast<size_t>(i)]; }
  const WorkerMetrics& Worker(int w) const { return instance_.workers[static_cast<size_t>(w)]; }
  bool Cached(int w, int i) const {
    const std::vector<bool>& cached = Worker(w).cached_layers;
    return static_cast<size_t>(i) < cached.size() && cached[static_cast<size_t>(i)];
  }

  const Instance& instance_;
  double token_us_;
};

}  // namespace weft::planner::testing
