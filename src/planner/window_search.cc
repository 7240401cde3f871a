#include "planner/window_search.h"

#include <algorithm>
#include <cmath>

namespace weft::planner {
namespace {

constexpr size_t kWindowWorkers = 9;
constexpr size_t kSmallestWindow = 2, kLargestWindow = 5;
// Windows beyond this many stage costs are not opened.
constexpr double kMaxWindowWork = 4e6;

}  // namespace

// The unused workers that would be the least detour anywhere in the window.
std::vector<int> WindowSearch::Spares(const std::vector<StageChoice>& stages, int first, int end,
                                      size_t count) {
  std::vector<bool> used(static_cast<size_t>(table_.worker_count), false);
  for (const StageChoice& stage : stages) used[static_cast<size_t>(stage.worker)] = true;
  std::vector<std::pair<double, int>> spares;
  for (int worker = 0; worker < table_.worker_count; ++worker) {
    if (used[static_cast<size_t>(worker)]) continue;
    double least = kInfinity;
    for (int begin = first; begin < end; ++begin) {
      const int furthest = std::min(end, reachability_.Furthest(worker, begin));
      for (int last = begin + 1; last <= furthest; ++last) {
        least = std::min(least, path_.Excess({worker, begin, last}));
      }
    }
    if (least < kInfinity) spares.push_back({least, worker});
  }
  work_ += 0.5 * static_cast<double>(end - first) * (end - first) * table_.worker_count;
  std::sort(spares.begin(), spares.end());
  spares.resize(std::min(spares.size(), count));
  std::vector<int> workers;
  workers.reserve(spares.size());
  for (const auto& [least, worker] : spares) workers.push_back(worker);
  return workers;
}

// best[S][i], as in exact_search.h, over few workers and the layers of the window. With the max
// term a state keeps its cheapest (sum, max) pair only: the result is good, not proven best.
std::vector<StageChoice> WindowSearch::Solve(const std::vector<int>& workers, int first, int end,
                                             double outside_max, double limit) {
  const size_t stride = static_cast<size_t>(end - first) + 1;
  const size_t sets = size_t{1} << workers.size();
  std::vector<Entry> best(sets * stride);
  best[0] = {0, outside_max, -1, 0};
  const auto total = [&](const Entry& entry) { return entry.sum + table_.alpha * entry.init_max; };
  size_t best_set = 0;
  double least = limit;
  for (size_t set = 0; set < sets; ++set) {
    for (int at = first; at < end; ++at) {
      const Entry from = best[set * stride + static_cast<size_t>(at - first)];
      if (total(from) >= least) continue;
      for (size_t k = 0; k < workers.size(); ++k) {
        if (set >> k & 1) continue;
        const int furthest = std::min(end, reachability_.Furthest(workers[k], at));
        Entry* row = best.data() + (set | size_t{1} << k) * stride;
        const size_t stage = table_.At(workers[k], at, 0);
        for (int to = at + 1; to <= furthest; ++to) {
          const size_t cost = stage + static_cast<size_t>(to);
          const Entry entry{from.sum + table_.sum[cost], std::max(from.init_max, table_.init[cost]),
                            static_cast<int16_t>(k), static_cast<int16_t>(at)};
          Entry& old = row[to - first];
          if (total(entry) < total(old)) old = entry;
        }
        work_ += std::max(0, furthest - at);
        if (total(row[end - first]) < least) {
          least = total(row[end - first]);
          best_set = set | size_t{1} << k;
        }
      }
    }
  }
  std::vector<StageChoice> stages;
  for (int to = end; best_set != 0 && to > first;) {
    const Entry& entry = best[best_set * stride + static_cast<size_t>(to - first)];
    const size_t k = static_cast<size_t>(entry.worker);
    stages.push_back({workers[k], entry.first, to});
    best_set ^= size_t{1} << k;
    to = entry.first;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

bool WindowSearch::ImproveWindow(std::vector<StageChoice>& stages, size_t begin, size_t count) {
  const int first = stages[begin].first, end = stages[begin + count - 1].end;
  const double length = end - first;
  double outside_max = 0, inside = 0, inside_max = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const size_t at = table_.At(stages[i].worker, stages[i].first, stages[i].end);
    if (i < begin || i >= begin + count) {
      outside_max = std::max(outside_max, table_.init[at]);
    } else {
      inside += table_.sum[at];
      inside_max = std::max(inside_max, table_.init[at]);
    }
  }
  std::vector<int> workers;
  for (size_t i = begin; i < begin + count; ++i) workers.push_back(stages[i].worker);
  size_t size = kWindowWorkers;  // fewer spares for a window of many layers
  while (size > count && std::ldexp(length * length * static_cast<double>(size) / 4,
                                    static_cast<int>(size)) > kMaxWindowWork) {
    --size;
  }
  for (const int worker : Spares(stages, first, end, size - std::min(size, count))) {
    workers.push_back(worker);
  }
  const double now = inside + table_.alpha * std::max(outside_max, inside_max);
  const std::vector<StageChoice> found = Solve(workers, first, end, outside_max, now * (1 - 1e-12));
  if (found.empty()) return false;
  const auto at = stages.begin() + static_cast<std::ptrdiff_t>(begin);
  stages.erase(at, at + static_cast<std::ptrdiff_t>(count));
  stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(begin), found.begin(), found.end());
  return true;
}

void WindowSearch::Improve(std::vector<StageChoice>& stages, double work) {
  const double end_work = work_ + work;
  for (size_t count = kSmallestWindow; count <= kLargestWindow; ++count) {
    bool improved = true;
    while (improved) {
      improved = false;
      for (size_t begin = 0; begin + std::min(count, stages.size()) <= stages.size(); ++begin) {
        if (work_ > end_work) return;
        improved = ImproveWindow(stages, begin, std::min(count, stages.size())) || improved;
      }
    }
    if (count >= stages.size()) return;
  }
}

}  // namespace weft::planner
