#include "planner/price_path.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace weft::planner {
namespace {

// min of row[i] + rest[i] over [begin, end). Four at a time: additions do not wait for the minimum.
double LeastSum(const double* row, const double* rest, int begin, int end) {
  double least[4] = {kInfinity, kInfinity, kInfinity, kInfinity};
  int i = begin;
  for (; i + 4 <= end; i += 4) {
    for (int k = 0; k < 4; ++k) least[k] = std::min(least[k], row[i + k] + rest[i + k]);
  }
  for (; i < end; ++i) least[0] = std::min(least[0], row[i] + rest[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

}  // namespace

PricePath::PricePath(const StageTable& table, const Reachability& reachability)
    : table_(table),
      reachability_(reachability),
      prices_(static_cast<size_t>(table.worker_count), 0),
      rest_(static_cast<size_t>(table.layer_count) + 1, 0) {}

double PricePath::Evaluate(const std::vector<double>& prices) {
  prices_ = prices;
  for (int first = table_.layer_count - 1; first >= 0; --first) {
    double least = kInfinity;
    for (int worker = 0; worker < table_.worker_count; ++worker) {
      const double* row = table_.sum.data() + table_.At(worker, first, 0);
      const int furthest = reachability_.Furthest(worker, first);
      least = std::min(least, LeastSum(row, rest_.data(), first + 1, furthest + 1) +
                                  prices[static_cast<size_t>(worker)]);
    }
    rest_[static_cast<size_t>(first)] = least;
  }
  return rest_[0] - std::accumulate(prices.begin(), prices.end(), 0.0);
}

std::vector<StageChoice> PricePath::Path() const {
  std::vector<StageChoice> path;
  for (int first = 0; first < table_.layer_count;) {
    StageChoice best{kNoWorker, first, first};
    double least = kInfinity;
    for (int worker = 0; worker < table_.worker_count; ++worker) {
      for (int end = first + 1; end <= reachability_.Furthest(worker, first); ++end) {
        const double cost = Cost(worker, first, end);
        if (cost >= least) continue;
        least = cost;
        best = {worker, first, end};
      }
    }
    CHECK(best.worker != kNoWorker, "a way through the layers was asked for where there is none");
    path.push_back(best);
    first = best.end;
  }
  return path;
}

double PricePath::Excess(const StageChoice& stage) const {
  return Cost(stage.worker, stage.first, stage.end) - rest_[static_cast<size_t>(stage.first)];
}

}  // namespace weft::planner
