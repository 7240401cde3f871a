// Shortest augmenting paths (the "Hungarian" method): stages are matched one after the other, each
// along the path of re-matchings that costs least. Potentials keep all reduced costs at 0 or above,
// so that the path is found as Dijkstra finds it, in O(stages * m).
#include "planner/matching.h"

#include <algorithm>

namespace weft::planner {
namespace {

// What a stage costs on a worker that cannot hold it: beyond every sum of real costs.
constexpr double kImpossible = 1e30;

class Matching {
 public:
  Matching(const StageTable& table, const Reachability& reachability, const std::vector<int>& cuts)
      : table_(table),
        reachability_(reachability),
        cuts_(cuts),
        stage_price_(cuts.size() - 1, 0),
        worker_price_(static_cast<size_t>(table.worker_count), 0),
        stage_of_(worker_price_.size(), -1) {}

  std::optional<std::vector<StageChoice>> Run() {
    const int stage_count = static_cast<int>(cuts_.size()) - 1;
    if (stage_count > table_.worker_count) return std::nullopt;
    for (int stage = 0; stage < stage_count; ++stage) {
      if (!Add(stage)) return std::nullopt;
    }
    std::vector<StageChoice> stages(static_cast<size_t>(stage_count));
    for (int worker = 0; worker < table_.worker_count; ++worker) {
      const int stage = stage_of_[At(worker)];
      if (stage >= 0) stages[At(stage)] = {worker, cuts_[At(stage)], cuts_[At(stage) + 1]};
    }
    return stages;
  }

 private:
  static size_t At(int i) { return static_cast<size_t>(i); }
  double Cost(int stage, int worker) const {
    const int first = cuts_[At(stage)], end = cuts_[At(stage) + 1];
    if (reachability_.Furthest(worker, first) < end) return kImpossible;
    return table_.sum[table_.At(worker, first, end)];
  }

  // Matches one more stage. False: none of the workers that are left, or come free, can hold it.
  bool Add(int added) {
    const size_t m = stage_of_.size();
    std::vector<double> distance(m, kInfinity);
    std::vector<int> before(m, kNoWorker);  // the worker whose stage moves on to this one
    std::vector<bool> settled(m, false);
    int stage = added, from = kNoWorker;
    double so_far = 0;
    while (true) {
      int nearest = kNoWorker;
      for (int worker = 0; worker < static_cast<int>(m); ++worker) {
        const size_t w = At(worker);
        if (settled[w]) continue;
        const double cost = Cost(stage, worker);
        if (cost < kImpossible) {
          const double reduced = so_far + cost - stage_price_[At(stage)] - worker_price_[w];
          if (reduced < distance[w]) {
            distance[w] = reduced;
            before[w] = from;
          }
        }
        if (nearest == kNoWorker || distance[w] < distance[At(nearest)]) nearest = worker;
      }
      if (nearest == kNoWorker || distance[At(nearest)] == kInfinity) return false;
      settled[At(nearest)] = true;
      so_far = distance[At(nearest)];
      from = nearest;
      if (stage_of_[At(nearest)] < 0) break;
      stage = stage_of_[At(nearest)];
    }
    UpdatePrices(added, so_far, distance, settled);
    for (int worker = from; worker != kNoWorker; worker = before[At(worker)]) {
      const int previous = before[At(worker)];
      stage_of_[At(worker)] = previous == kNoWorker ? added : stage_of_[At(previous)];
    }
    return true;
  }

  void UpdatePrices(int added, double so_far, const std::vector<double>& distance,
                    const std::vector<bool>& settled) {
    stage_price_[At(added)] += so_far;
    for (size_t w = 0; w < settled.size(); ++w) {
      if (!settled[w] || stage_of_[w] < 0) continue;
      stage_price_[At(stage_of_[w])] += so_far - distance[w];
      worker_price_[w] -= so_far - distance[w];
    }
  }

  const StageTable& table_;
  const Reachability& reachability_;
  const std::vector<int>& cuts_;
  std::vector<double> stage_price_, worker_price_;
  std::vector<int> stage_of_;  // [worker], -1: free
};

}  // namespace

std::optional<std::vector<StageChoice>> MatchWorkers(const StageTable& table,
                                                     const Reachability& reachability,
                                                     const std::vector<int>& cuts) {
  return Matching(table, reachability, cuts).Run();
}

}  // namespace weft::planner
