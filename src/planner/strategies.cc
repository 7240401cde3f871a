#include "planner/strategies.h"

#include <algorithm>
#include <numeric>

#include "planner/matching.h"
#include "planner/order_search.h"

namespace weft::planner {
namespace {

// 5.5.2 and 5.5.3.
constexpr int kMostPermuted = 7;
constexpr double kMaxPermutedProblem = 2e4, kMaxAnnealedProblem = 5e4;

SearchResult ResultOf(const StageTable& table, const std::vector<StageChoice>& stages,
                      SearchStrategy strategy) {
  SearchResult result;
  result.assignment = {stages, TotalCost(table, stages)};
  result.strategy = strategy;
  return result;
}

SearchResult FindAmongAllOrders(const StageTable& table) {
  const Reachability reachability(table);
  OrderPricer pricer(table, reachability, table.alpha);
  std::vector<int> order(static_cast<size_t>(table.worker_count)), best;
  std::iota(order.begin(), order.end(), 0);
  double least = kInfinity;
  do {
    const double price = pricer.Price(order);
    if (!OrderPricer::IsComplete(price) || price >= least) continue;
    least = price;
    best = order;
  } while (std::next_permutation(order.begin(), order.end()));
  SearchResult result;
  result.strategy = SearchStrategy::kPermutations;
  if (!best.empty()) result.assignment = FindAlongOrder(table, best);
  return result;
}

}  // namespace

SearchResult FindEqualSplit(const StageTable& table, const SearchOptions& options) {
  const Reachability reachability(table);
  const int n = table.layer_count;
  const int most = std::min(n, table.worker_count);
  const int wanted = options.equal_parts;
  for (int parts = wanted > 0 ? wanted : most; parts >= (wanted > 0 ? wanted : 1); --parts) {
    const int each = (n + parts - 1) / parts;
    std::vector<int> cuts;
    for (int end = n; end > 0; end -= each) cuts.push_back(end);
    cuts.push_back(0);
    std::reverse(cuts.begin(), cuts.end());
    // Rounding up can leave fewer parts than were asked for: 10 layers in 6 parts are 5 parts of
    // 2.
    if (static_cast<int>(cuts.size()) - 1 < parts && wanted == 0) continue;
    if (const auto stages = MatchWorkers(table, reachability, cuts)) {
      return ResultOf(table, *stages, SearchStrategy::kEqual);
    }
  }
  SearchResult none;
  none.strategy = SearchStrategy::kEqual;
  return none;
}

SearchResult FindMemorySplit(const CostModel& model, const std::vector<int>& workers,
                             const StageTable& table) {
  std::vector<int> rows(workers.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto offer = [&](int row) { return model.OfferBytes(workers[static_cast<size_t>(row)]); };
  std::stable_sort(rows.begin(), rows.end(), [&](int a, int b) { return offer(a) > offer(b); });
  double all_offers = 0, offered = 0;
  for (const int row : rows) all_offers += offer(row);
  SearchResult result;
  result.strategy = SearchStrategy::kMemory;
  std::vector<StageChoice> stages;
  int first = 0;
  for (const int row : rows) {
    offered += offer(row);
    const double share = model.BytesBefore(table.layer_count) * offered / all_offers;
    int end = first;
    // The layer on whose middle the border falls goes to whoever has more of it.
    while (end < table.layer_count &&
           (model.BytesBefore(end) + model.BytesBefore(end + 1)) / 2 <= share) {
      ++end;
    }
    end = std::min(end, table.Reach(row, first));
    if (end == first) continue;
    stages.push_back({row, first, end});
    first = end;
  }
  if (first < table.layer_count) return result;
  return ResultOf(table, stages, SearchStrategy::kMemory);
}

SearchResult FindPermutation(const StageTable& table, const SearchOptions& options) {
  const double size =
      static_cast<double>(table.layer_count) * table.layer_count * table.worker_count;
  if (table.worker_count <= kMostPermuted && size < kMaxPermutedProblem) {
    return FindAmongAllOrders(table);
  }
  SearchResult result;
  if (size < kMaxAnnealedProblem) {
    result.assignment = FindAnnealed(table, options);
    result.strategy = SearchStrategy::kAnnealing;
  } else {
    result.assignment = FindRandom(table, options);
    result.strategy = SearchStrategy::kRandom;
  }
  return result;
}

}  // namespace weft::planner
