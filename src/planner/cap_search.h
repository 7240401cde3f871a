// Minimises sum + alpha * max(init) with the help of a search that can only minimise the sum under
// a cap on init.
//
// Let f(K) be the least sum over assignments whose every init is at most K. The optimum is min over
// K of f(K) + alpha K, attained where K is the init of some stage. f never grows with K, so an
// interval of caps [K1, K2] holds nothing below f(K2) + alpha K1. Intervals wait in a queue by that
// bound. A pass splits the best one at its middle cap. It gives f there and an assignment whose own
// largest init M may lie well below. All caps in [M, middle] are then settled, since f is the same
// on them and M is the cheapest. When the best bound reaches the best assignment found, nothing
// better exists.
//
// Example with alpha = 0.8 and caps 10, 20, 30, 40. The first pass, without a cap, finds f(40) =
// 100 with an assignment whose largest init is 40: 100 + 32 = 132. What is left are caps 10 to 30,
// with the bound 100 + 8 = 108 < 132. The middle, 20, gives f(20) = 118 with largest init 20: 134,
// no better. [10, 10] is bounded by 118 + 8 = 126 and [30, 30] by 100 + 24 = 124, so 30 is next:
// f(30) = 101 gives 125. Now 126 for cap 10 is above the best, and 125 is the optimum after three
// passes instead of four.
#pragma once

#include <algorithm>
#include <optional>
#include <queue>
#include <vector>

#include "planner/cost_model.h"

namespace weft::planner {

// What a pass found: the assignment with the least sum under its cap.
struct CapPassResult {
  double sum = 0;
  double init_max = 0;
  std::vector<StageChoice> stages;
};

// Sums of the same numbers in different orders: below this relative difference they count as equal.
inline constexpr double kCapTolerance = 1e-13;

// `feasible(cap)`: some assignment has every init <= cap. `pass(cap, threshold)`: the least sum
// under `cap`, or nullopt if it is not below `threshold`; must be exact, so that the result is.
// nullopt: not feasible under any cap.
template <typename Feasible, typename Pass>
std::optional<Assignment> MinimiseOverCaps(const StageTable& table, const Feasible& feasible,
                                           const Pass& pass) {
  const std::vector<double> caps = DistinctCaps(table);
  if (caps.empty() || !feasible(caps.back())) return std::nullopt;
  const auto lowest =
      std::partition_point(caps.begin(), caps.end(), [&](double cap) { return !feasible(cap); });

  struct Interval {
    size_t low, end;     // caps[low..end)
    double sum_bound;    // f of its largest cap, or below
    double total_bound;  // sum_bound + alpha * caps[low]
    bool operator<(const Interval& other) const { return total_bound > other.total_bound; }
  };
  std::priority_queue<Interval> open;
  const auto add = [&](size_t low, size_t end, double sum_bound) {
    if (low < end) open.push({low, end, sum_bound, sum_bound + table.alpha * caps[low]});
  };
  add(static_cast<size_t>(lowest - caps.begin()), caps.size(), 0);

  Assignment best;
  while (!open.empty()) {
    const Interval interval = open.top();
    const double limit = best.total_cost * (1 - kCapTolerance);
    if (interval.total_bound >= limit) break;  // and so are all others
    open.pop();
    // The first pass has no cap: it gives the bound that everything else starts from.
    const bool first_pass = best.stages.empty();
    const size_t middle =
        first_pass ? interval.end - 1 : interval.low + (interval.end - 1 - interval.low) / 2;
    const double price = table.alpha * caps[interval.low];
    const std::optional<CapPassResult> result = pass(caps[middle], limit - price);
    if (result) {
      const double total = result->sum + table.alpha * result->init_max;
      if (total < best.total_cost) best = {result->stages, total};
      const auto own = std::lower_bound(caps.begin(), caps.end(), result->init_max);
      add(interval.low, static_cast<size_t>(own - caps.begin()), result->sum);
    }
    add(middle + 1, interval.end, interval.sum_bound);
  }
  best.total_cost = TotalCost(table, best.stages);
  return best;
}

}  // namespace weft::planner
