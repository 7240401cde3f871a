// RepairPlan: which candidates the search of repair_search.h looks at.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"
#include "planner/planner.h"
#include "planner/repair_search.h"

namespace weft::planner {
namespace {

// Downtimes that nobody tells apart.
constexpr double kSameDowntimeUs = 20'000;
constexpr double kSameDowntime = 1.1;
constexpr int kExactCandidates = 10;
constexpr double kExactRepairWork = 2e7;  // 2^m m n^2 / 2

// How many candidates the exact search takes for a hole of so many layers.
size_t ExactLimit(int layer_count) {
  int limit = kExactCandidates;
  const auto work = [&] { return std::ldexp(limit * 0.5 * layer_count * layer_count, limit); };
  while (limit > 1 && work() > kExactRepairWork) --limit;
  return static_cast<size_t>(limit);
}

// What a candidate could do alone: looked at one by one, as there may be a thousand.
struct Prospect {
  size_t candidate = 0;
  double us_per_layer = kInfinity;  // of standing still, at its best
  std::vector<int> furthest;        // [first]
};

// Those that can hold some layer, the most promising first.
std::vector<Prospect> ByPromise(const std::vector<LayerCost>& layers,
                                const std::vector<WorkerMetrics>& workers,
                                const PlanContext& context, const RepairProblem& problem) {
  std::vector<Prospect> prospects;
  RepairProblem alone = problem;
  for (size_t i = 0; i < problem.candidates.size(); ++i) {
    alone.candidates = {problem.candidates[i]};
    const RepairTable table(layers, workers, context, alone);
    Prospect prospect;
    prospect.candidate = i;
    for (int first = 0; first <= table.layer_count(); ++first) {
      const int end = table.reachability().Furthest(0, first);
      prospect.furthest.push_back(end);
      if (end == first) continue;
      const RepairStage& stage = table.At(0, first, end);
      const double stopped_us = stage.load_us + (stage.ready ? 0 : stage.replay_us);
      prospect.us_per_layer =
          std::min(prospect.us_per_layer, (stopped_us + stage.exec_us) / (end - first));
    }
    if (prospect.us_per_layer < kInfinity) prospects.push_back(std::move(prospect));
  }
  std::stable_sort(prospects.begin(), prospects.end(), [](const Prospect& a, const Prospect& b) {
    return a.us_per_layer < b.us_per_layer;
  });
  return prospects;
}

// Every candidate in turn takes as much as it can.
RepairChoice AsTheyCome(const RepairTable& table) {
  RepairChoice result;
  int first = 0;
  for (int row = 0; row < table.candidate_count(); ++row) {
    const int end = table.reachability().Furthest(row, first);
    result.stages.push_back({row, first, end});
    first = end;
  }
  bool needs_rows = false;
  for (auto stage = result.stages.rbegin(); stage != result.stages.rend(); ++stage) {
    const RepairStage& costs = table.At(stage->row, stage->first, stage->end);
    needs_rows = needs_rows || !costs.ready;
    result.load_us = std::max(result.load_us, costs.load_us);
    if (needs_rows) result.replay_us += costs.replay_us;
    result.exec_us += costs.exec_us;
  }
  return result;
}

// The best choice of all the table's candidates.
std::optional<RepairChoice> SearchRepair(const RepairTable& table, bool& complete) {
  RepairSearch search(table);
  const std::optional<RepairChoice> least = search.LeastDowntime();
  complete = search.complete();
  if (!least) return std::nullopt;
  const double downtime_us = least->downtime_us();
  const std::optional<RepairChoice> fastest =
      search.LeastExec(std::max(downtime_us + kSameDowntimeUs, downtime_us * kSameDowntime));
  return fastest ? fastest : least;
}

std::vector<int> CoverOf(const std::vector<Prospect>& prospects, int layer_count) {
  std::vector<int> furthest;
  for (const Prospect& prospect : prospects) {
    furthest.insert(furthest.end(), prospect.furthest.begin(), prospect.furthest.end());
  }
  return FindCover(Reachability(layer_count, std::move(furthest)));
}

Repair MakeRepair(const RepairTable& table, const RepairChoice& result, bool proven) {
  Repair repair;
  for (const RepairStageChoice& stage : result.stages) {
    repair.stages.push_back(table.Assignment(stage.row, stage.first, stage.end));
    repair.exec_us += repair.stages.back().exec_us;
  }
  repair.load_us = result.load_us;
  repair.replay_us = result.replay_us;
  repair.downtime_us = result.downtime_us();
  repair.proven = proven;
  return repair;
}

}  // namespace

std::optional<Repair> RepairPlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context, const RepairProblem& problem) {
  if (!LayersProblem(layers).empty() || !ContextProblem(context).empty()) return std::nullopt;
  CHECK(0 <= problem.first_layer && problem.first_layer < problem.end_layer &&
            static_cast<size_t>(problem.end_layer) <= layers.size(),
        "a hole is a range of the model's layers");
  std::set<int> seen;
  for (const RepairCandidate& candidate : problem.candidates) {
    CHECK(candidate.worker >= 0 && static_cast<size_t>(candidate.worker) < workers.size(),
          "a candidate for a hole is one of the workers");
    CHECK(seen.insert(candidate.worker).second, "a worker is a candidate for a hole once");
  }
  const std::vector<int> cuts = CutsOf(layers);
  const auto first = std::lower_bound(cuts.begin(), cuts.end(), problem.first_layer);
  const auto end = std::lower_bound(first, cuts.end(), problem.end_layer);
  if (*first != problem.first_layer || *end != problem.end_layer) return std::nullopt;
  const int layer_count = static_cast<int>(end - first);
  const std::vector<Prospect> prospects = ByPromise(layers, workers, context, problem);
  const size_t limit = ExactLimit(layer_count);
  const auto table_of = [&](const std::vector<int>& chosen) {
    RepairProblem part = problem;
    part.candidates.clear();
    for (const int i : chosen) {
      part.candidates.push_back(problem.candidates[prospects[static_cast<size_t>(i)].candidate]);
    }
    return RepairTable(layers, workers, context, part);
  };
  std::vector<int> chosen(std::min(limit, prospects.size()));
  std::iota(chosen.begin(), chosen.end(), 0);
  bool complete = true;
  const RepairTable promising = table_of(chosen);
  if (const auto found = SearchRepair(promising, complete)) {
    return MakeRepair(promising, *found, complete && prospects.size() <= limit);
  }
  if (complete && prospects.size() <= limit) return std::nullopt;

  // The most promising ones cannot hold the hole: some that can, and the best beside them.
  chosen = CoverOf(prospects, layer_count);
  if (chosen.empty()) return std::nullopt;
  const RepairChoice cover = AsTheyCome(table_of(chosen));
  for (int i = 0; chosen.size() < limit && i < static_cast<int>(prospects.size()); ++i) {
    if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
  }
  const RepairTable wider = table_of(chosen);
  std::optional<RepairChoice> found;
  if (chosen.size() <= limit) found = SearchRepair(wider, complete);
  return MakeRepair(wider, found ? *found : cover, false);
}

}  // namespace weft::planner
