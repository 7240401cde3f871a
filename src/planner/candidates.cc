#include "planner/candidates.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "planner/coverage.h"
#include "planner/words.h"

namespace weft::planner {
namespace {

// n^2 m up to which all workers are looked at: bounds the stage table at about 100 MB...
constexpr double kMaxProblem = 4e6;
// ...and so many workers at most, so that a plan takes no longer than it may.
constexpr double kMaxCandidates = 160;
// A set of workers that can hold all layers is looked at even where it is so much larger.
constexpr size_t kCoverFactor = 4;
// To see whether the fastest can hold all layers: no long search, the others may well be needed.
constexpr uint64_t kFastestCoverWork = 1'000'000;

// The most layers that `worker` can run in one stage, and its cost per layer then. For throughput
// what a single layer occupies it for: of so many workers, each has a layer or two.
struct Capability {
  int worker = 0;
  int layers = 0;
  double us_per_layer = kInfinity;
};

Capability Measure(const CostModel& model, int worker) {
  Capability best{worker, 0, kInfinity};
  // Shortening keeps a stage allowed, so a window that only grows or slides finds the longest one.
  int first = 0, single_layers = 0;
  double busy_us = 0;
  for (int end = 1; end <= model.layer_count(); ++end) {
    if (model.objective() == Objective::kThroughput && model.Allowed(worker, end - 1, end)) {
      busy_us += model.Stage(kNoWorker, worker, end - 1, end).busy_us;
      ++single_layers;
    }
    if (!model.Allowed(worker, first, end)) {
      ++first;
      continue;
    }
    best.layers = end - first;
    const StageAssignment stage = model.Stage(kNoWorker, worker, first, end);
    best.us_per_layer = (stage.exec_us + stage.departure_us + stage.init_cost) / best.layers;
  }
  if (single_layers > 0) best.us_per_layer = busy_us / single_layers;
  return best;
}

// Which of `workers`, that come by rising cost per layer, to search over: `limit` of them, the
// fastest, but so that together they can still hold all layers if all workers can. The only device
// with room for the head may be the slowest of all. Where no such set is known, every layer keeps
// its fastest holder. A set that holds all layers may be larger than the limit, by kCoverFactor.
std::vector<bool> KeepFastest(const CostModel& model, const std::vector<int>& workers,
                              size_t limit) {
  std::vector<bool> kept(workers.size(), false);
  const auto fastest_end = workers.begin() + static_cast<std::ptrdiff_t>(limit);
  if (!FindCover(Reachability(model, {workers.begin(), fastest_end}), kFastestCoverWork).empty()) {
    std::fill(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(limit), true);
    return kept;
  }
  const Reachability reachability(model, workers);
  std::vector<int> wanted = FindCover(reachability);
  if (wanted.empty()) {
    for (int layer = 0; layer < model.layer_count(); ++layer) {
      int row = 0;
      while (row < reachability.worker_count() && reachability.Furthest(row, layer) == layer) ++row;
      if (row < reachability.worker_count()) wanted.push_back(row);
    }
  }
  size_t count = 0;
  const auto keep = [&](size_t row, size_t most) {
    if (kept[row] || count >= most) return;
    kept[row] = true;
    ++count;
  };
  for (const int row : wanted) keep(static_cast<size_t>(row), kCoverFactor * limit);
  for (size_t row = 0; row < workers.size(); ++row) keep(row, limit);
  return kept;
}

// Every layer is on some worker.
double SlowestLayer(const CostModel& model, const Reachability& reachability,
                    const std::vector<int>& workers) {
  double slowest = 0;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    double least = kInfinity;
    for (size_t row = 0; row < workers.size(); ++row) {
      if (reachability.Furthest(static_cast<int>(row), layer) == layer) continue;
      least = std::min(least, model.Stage(kNoWorker, workers[row], layer, layer + 1).busy_us);
    }
    slowest = std::max(slowest, least);
  }
  return slowest;
}

// What the worker can compute in one stage, memory being the limit, and the stage's busy_us beside
// compute.
struct Capacity {
  double most_compute = 0, speed = 1, fixed_us = 0;
};

Capacity CapacityOf(const CostModel& model, const Reachability& reachability, int row, int worker) {
  Capacity capacity;
  for (int first = 0; first < model.layer_count(); ++first) {
    const int end = reachability.Furthest(row, first);
    if (end == first) continue;
    const double compute = model.ComputeBefore(end) - model.ComputeBefore(first);
    if (compute <= capacity.most_compute) continue;
    const StageAssignment stage = model.Stage(kNoWorker, worker, first, end);
    capacity.most_compute = compute;
    if (stage.compute_us > 0) capacity.speed = compute / stage.compute_us;
    capacity.fixed_us = stage.busy_us - stage.compute_us;
  }
  return capacity;
}

// The least time of the slowest stage in which the n workers that can do most of it could compute
// everything, if compute could be divided at will.
double SlowestBound(const CostModel& model, const Reachability& reachability,
                    const std::vector<int>& workers) {
  std::vector<Capacity> capacities;
  double low = 0, high = 0;
  for (size_t row = 0; row < workers.size(); ++row) {
    capacities.push_back(CapacityOf(model, reachability, static_cast<int>(row), workers[row]));
    const Capacity& capacity = capacities.back();
    high = std::max(high, capacity.fixed_us + capacity.most_compute / capacity.speed);
  }
  const size_t most_stages = std::min(workers.size(), static_cast<size_t>(model.layer_count()));
  const auto suffices = [&](double us) {
    std::vector<double> done;
    done.reserve(capacities.size());
    for (const Capacity& capacity : capacities) {
      done.push_back(
          std::clamp((us - capacity.fixed_us) * capacity.speed, 0.0, capacity.most_compute));
    }
    const auto end = done.begin() + static_cast<std::ptrdiff_t>(most_stages);
    std::nth_element(done.begin(), end - 1, done.end(), std::greater<>());
    return std::accumulate(done.begin(), end, 0.0) >=
           model.ComputeBefore(model.layer_count()) * (1 - 1e-9);
  };
  for (int i = 0; i < 50 && !workers.empty(); ++i) {
    const double middle = (low + high) / 2;
    (suffices(middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace

CandidateSet FindCandidates(const CostModel& model, const std::vector<WorkerMetrics>& workers) {
  CandidateSet set;
  std::vector<Capability> able;
  for (int worker = 0; worker < model.worker_count(); ++worker) {
    const WorkerMetrics& metrics = workers[static_cast<size_t>(worker)];
    const std::string problem = WorkerProblem(metrics);
    if (!problem.empty()) {
      set.left_out.push_back({worker, problem});
      continue;
    }
    const Capability capability = Measure(model, worker);
    if (capability.layers == 0) {
      set.left_out.push_back({worker, "the " +
                                          FormatBytes(static_cast<double>(metrics.memory_bytes)) +
                                          " that it offers cannot hold any layer"});
      continue;
    }
    able.push_back(capability);
  }
  const double n = model.layer_count();
  const double limit = std::clamp(kMaxProblem / (n * n), 1.0, kMaxCandidates);
  std::vector<bool> kept(able.size(), true);
  if (static_cast<double>(able.size()) > limit) {
    std::stable_sort(able.begin(), able.end(), [](const Capability& a, const Capability& b) {
      return a.us_per_layer < b.us_per_layer;
    });
    std::vector<int> by_speed;
    by_speed.reserve(able.size());
    for (const Capability& capability : able) by_speed.push_back(capability.worker);
    kept = KeepFastest(model, by_speed, static_cast<size_t>(limit));
  }
  for (size_t i = 0; i < able.size(); ++i) {
    if (kept[i]) {
      set.workers.push_back(able[i].worker);
      continue;
    }
    set.dropped.push_back(able[i].worker);
    set.left_out.push_back(
        {able[i].worker, "the planner looks at the " + std::to_string(static_cast<int>(limit)) +
                             " fastest workers and those that alone can hold a layer"});
  }
  std::sort(set.workers.begin(), set.workers.end());
  return set;
}

double RelaxedBound(const CostModel& model, const CandidateSet& set,
                    const std::vector<double>& prices) {
  std::vector<int> workers = set.workers;
  workers.insert(workers.end(), set.dropped.begin(), set.dropped.end());
  std::vector<double> price_of = prices;
  price_of.resize(workers.size(), 0);
  const Reachability reachability(model, workers);
  const int n = model.layer_count();
  if (model.objective() == Objective::kThroughput) {
    return std::max(SlowestBound(model, reachability, workers),
                    SlowestLayer(model, reachability, workers));
  }
  std::vector<double> rest(static_cast<size_t>(n) + 1, 0);
  for (int first = n - 1; first >= 0; --first) {
    double least = kInfinity;
    for (size_t row = 0; row < workers.size(); ++row) {
      const int furthest = reachability.Furthest(static_cast<int>(row), first);
      if (furthest == first) continue;
      least = std::min(least, price_of[row] + model.LeastExec(workers[row], first, furthest, rest));
    }
    rest[static_cast<size_t>(first)] = least;
  }
  return rest[0] - std::accumulate(prices.begin(), prices.end(), 0.0);
}

}  // namespace weft::planner
