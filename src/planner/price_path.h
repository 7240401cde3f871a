// This finds the cheapest way through the layers if every worker could be used again and again, at
// a price for each use. (It is the Lagrangian relaxation of "every worker at most once".) Prices
// are p >= 0. An assignment that uses every worker at most once then costs at least
//
//   min over ways of (sum of costs + prices of the uses) - sum of all prices
//
// since it is itself such a way and pays no price twice. So this is a lower bound. It is the better
// the more the prices make the way share out its uses. At prices of 0 it is the bound of the exact
// search.
#pragma once

#include <vector>

#include "planner/coverage.h"

namespace weft::planner {

class PricePath {
 public:
  // Takes only stages that `reachability` allows. Both references are kept.
  PricePath(const StageTable& table, const Reachability& reachability);

  // Takes prices by worker, and returns the lower bound for assignments. It is infinite if the
  // layers have no way. This takes O(m n^2).
  double Evaluate(const std::vector<double>& prices);

  // Gives, after Evaluate, the least sum and prices that hold [layer, n), by layer.
  const std::vector<double>& rest() const { return rest_; }
  // Gives a way of that sum, from layer 0. REQUIRES: it exists.
  std::vector<StageChoice> Path() const;
  // Tells how much dearer the best way through this stage is than the best of all. It is at least
  // 0, but for rounding.
  double Excess(const StageChoice& stage) const;

 private:
  double Cost(int worker, int first, int end) const {
    return table_.sum[table_.At(worker, first, end)] + prices_[static_cast<size_t>(worker)] +
           rest_[static_cast<size_t>(end)];
  }

  const StageTable& table_;
  const Reachability& reachability_;
  std::vector<double> prices_, rest_;
};

}  // namespace weft::planner
