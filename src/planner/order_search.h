// Searches over worker orders are for swarms too big for the exact search
// (dynamic-graph-partitioning 5.4 and 5.5). The thesis' dynamic program prices one order; annealing
// or random sampling picks orders. They are seeded and bounded by counts, so that one input has one
// result. Results respect every limit of the table but are not optimal in general.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost_model.h"
#include "planner/coverage.h"

namespace weft::planner {

// Prices one order after another; workers may be skipped. Each takes O(n^2 m) time and O(n m)
// memory.
class OrderPricer {
 public:
  // Takes only stages that `reachability` allows, and weights the max term with `alpha`. Both
  // references are kept.
  OrderPricer(const StageTable& table, const Reachability& reachability, double alpha);

  // Gives the C_total of the assignment that the DP of 5.4 finds along `order`, which has distinct
  // workers of the table. A state keeps only its cheapest (sum, max) pair, as in the thesis, so
  // this is an upper bound of the order's optimum. An order that cannot hold all layers costs more
  // than any real one, the more layers it leaves uncovered.
  double Price(const std::vector<int>& order);
  static bool IsComplete(double price);
  // Gives the number of stage costs looked at so far.
  double work() const { return work_; }

  // Gives the stages behind the last Price. REQUIRES: IsComplete of that price.
  std::vector<StageChoice> Stages() const;

 private:
  const StageTable& table_;
  const Reachability& reachability_;
  const double alpha_;
  std::vector<double> sum_, max_;  // [layers covered]
  std::vector<int> from_;          // [position][end]: start of the stage, or -1: position skipped
  std::vector<int> order_;
  double work_ = 0;
};

// Gives the optimum along one fixed order, max term included (cap_search.h), or nullopt if it
// cannot hold all layers.
std::optional<Assignment> FindAlongOrder(const StageTable& table, const std::vector<int>& order);

// Searches as 5.5.3, with restarts from the best order so far. Gives nullopt if no order that holds
// all layers was found.
std::optional<Assignment> FindAnnealed(const StageTable& table, const SearchOptions& options);

// Searches as 5.5.4, with a budget of options.random_work instead of 100 ms. A quarter of it prices
// shuffled orders. The rest anneals from the best of them, more slowly the cheaper an order is to
// price.
std::optional<Assignment> FindRandom(const StageTable& table, const SearchOptions& options);

}  // namespace weft::planner
