#include "planner/search.h"

#include <algorithm>
#include <cmath>

#include "planner/exact_search.h"
#include "planner/pipeline_search.h"
#include "planner/price_search.h"
#include "planner/strategies.h"

namespace weft::planner {
namespace {

// 2^m m n^2 up to which the exact search runs: 14 workers with 64 layers, 16 with 32.
constexpr double kMaxExactWork = 1.2e9;
// Where prices prove in so many stage costs that nothing is better, subsets need not be looked at.
constexpr double kProofWork = 4e6;
constexpr int kFewWorkers = 6;
constexpr double kProofTolerance = 1e-11;

bool IsExact(const StageTable& table, const SearchOptions& options) {
  const double size =
      static_cast<double>(table.layer_count) * table.layer_count * table.worker_count;
  return table.worker_count <= std::min(options.exact_worker_limit, 16) &&
         std::ldexp(size, table.worker_count) <= kMaxExactWork;
}

SearchResult FindOptimal(const StageTable& table, const SearchOptions& options) {
  if (table.worker_count > kFewWorkers) {
    SearchOptions brief = options;
    brief.price_work = std::min(options.price_work, kProofWork);
    SearchResult found = FindByPrices(table, brief);
    if (found.assignment &&
        found.lower_bound >= found.assignment->total_cost * (1 - kProofTolerance)) {
      found.strategy = SearchStrategy::kExact;
      return found;
    }
  }
  SearchResult result;
  result.assignment = FindExact(table);
  result.strategy = SearchStrategy::kExact;
  if (result.assignment) result.lower_bound = result.assignment->total_cost;
  return result;
}

}  // namespace

SearchResult Search(const CostModel& model, const std::vector<int>& workers,
                    const StageTable& table, const SearchOptions& options) {
  if (table.worker_count == 0) return {};
  const bool exact = IsExact(table, options);
  switch (options.choice) {
    case PlanChoice::kEqual:
      return FindEqualSplit(table, options);
    case PlanChoice::kMemory:
      return FindMemorySplit(model, workers, table);
    case PlanChoice::kPermutation:
      return FindPermutation(table, options);
    case PlanChoice::kBest:
      break;
  }
  if (table.objective == Objective::kThroughput) {
    return FindPipeline(table, options, exact);
  }
  if (exact) return FindOptimal(table, options);
  return FindByPrices(table, options);
}

}  // namespace weft::planner
