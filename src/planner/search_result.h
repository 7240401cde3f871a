// What the searches give back.
#pragma once

#include <optional>
#include <vector>

#include "planner/cost_model.h"

namespace weft::planner {

struct SearchResult {
  std::optional<Assignment> assignment;  // worker = row of the table; nullopt: none was found
  SearchStrategy strategy = SearchStrategy::kNone;
  double lower_bound = 0;      // no assignment of the table has a lower C_total; 0: not known
  std::vector<double> prices;  // of the workers, behind that bound (price_path.h); empty: none
};

}  // namespace weft::planner
