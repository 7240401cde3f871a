#include "planner/pipeline_search.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "planner/coverage.h"
#include "planner/exact_search.h"
#include "planner/price_search.h"

namespace weft::planner {
namespace {

// For each limit that is tried; some twenty are.
constexpr uint64_t kPipelineCoverWork = 500'000;
// Up to so many workers all sets of them are looked at for each limit, even where their sum is not
// minimised over sets.
constexpr int kMostInSets = 16;

// What n workers can hold at most, each in its best stage: there are no more stages than layers.
double MostOf(std::vector<double> held, int layer_count) {
  const size_t count = std::min(held.size(), static_cast<size_t>(layer_count));
  std::sort(held.begin(), held.end(), std::greater<>());
  return std::accumulate(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
}

// No set of workers holds all layers in stages within the limit that `reachability` has: some layer
// has no holder, or all that they can hold is less than all layers or all compute.
bool IsImpossible(const StageTable& table, const Reachability& reachability) {
  const int n = table.layer_count;
  std::vector<double> layers, compute;
  std::vector<bool> has_holder(static_cast<size_t>(n), false);
  for (int worker = 0; worker < table.worker_count; ++worker) {
    layers.push_back(0);
    compute.push_back(0);
    for (int first = 0; first < n; ++first) {
      const int end = reachability.Furthest(worker, first);
      if (end == first) continue;
      has_holder[static_cast<size_t>(first)] = true;
      layers.back() = std::max<double>(layers.back(), end - first);
      compute.back() = std::max(compute.back(), table.compute[static_cast<size_t>(end)] -
                                                    table.compute[static_cast<size_t>(first)]);
    }
  }
  return MostOf(layers, n) < n || MostOf(compute, n) < table.compute.back() * (1 - 1e-9) ||
         !std::all_of(has_holder.begin(), has_holder.end(), [](bool has) { return has; });
}

bool IsCovered(const Reachability& reachability, bool in_sets) {
  if (!in_sets) return !FindCover(reachability, kPipelineCoverWork).empty();
  return PrefixCover(reachability).back() == reachability.layer_count();
}

}  // namespace

SearchResult FindPipeline(const StageTable& table, const SearchOptions& options, bool exact) {
  CHECK(table.objective == Objective::kThroughput);
  const bool in_sets = exact || table.worker_count <= kMostInSets;
  const std::vector<double> caps = DistinctCaps(table);
  const auto first_where = [&](const auto& holds) {
    return std::partition_point(caps.begin(), caps.end(),
                                [&](double cap) { return !holds(Reachability(table, cap)); });
  };
  const auto possible = first_where(
      [&](const Reachability& reachability) { return !IsImpossible(table, reachability); });
  const auto least = std::partition_point(possible, caps.end(), [&](double cap) {
    return !IsCovered(Reachability(table, cap), in_sets);
  });
  if (least == caps.end()) return {};
  const StageTable capped = SumUnderCap(table, *least);
  SearchResult result;
  result.strategy = exact ? SearchStrategy::kExact : SearchStrategy::kPrices;
  SearchOptions half = options;  // the limits took the other half
  half.price_work /= 2;
  result.assignment = exact ? FindExact(capped) : FindByPrices(capped, half).assignment;
  if (!result.assignment) return {};
  result.assignment->total_cost = TotalCost(table, result.assignment->stages);
  result.lower_bound = in_sets ? result.assignment->total_cost : *possible;
  return result;
}

}  // namespace weft::planner
