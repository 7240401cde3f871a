// The cheapest way through the layers if every worker could be used again and again, at a price for
// each use. (It is the Lagrangian relaxation of "every worker at most once".) With prices p >= 0,
// an assignment that uses every worker at most once costs at least
//
//   min over ways of (sum of costs + prices of the uses) - sum of all prices
//
// since it is itself such a way and pays no price twice: a lower bound, the better the more the
// prices make the way share out its uses. At prices of 0 it is the bound of the exact search.
#pragma once

#include <vector>

#include "planner/coverage.h"

namespace weft::planner {

class PricePath {
 public:
  // Only stages that `reachability` allows. Keeps both references.
  PricePath(const StageTable& table, const Reachability& reachability);

  // Prices by worker. Returns the lower bound for assignments; infinite if the layers have no way.
  // O(m n^2).
  double Evaluate(const std::vector<double>& prices);

  // Of the last Evaluate. [layer] least sum and prices that hold [layer, n).
  const std::vector<double>& rest() const { return rest_; }
  // A way of that sum, from layer 0. REQUIRES: it exists.
  std::vector<StageChoice> Path() const;
  // How much dearer the best way through this stage is than the best of all: at least 0, but for
  // rounding.
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
