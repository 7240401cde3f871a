// Which worker runs which of some stages whose cuts are given: the assignment problem.
#pragma once

#include <optional>
#include <vector>

#include "planner/coverage.h"

namespace weft::planner {

// The workers, each at most once, for [cuts[k], cuts[k + 1]) with the least sum; only stages that
// `reachability` allows. O(stages^2 m). nullopt: there are none.
std::optional<std::vector<StageChoice>> MatchWorkers(const StageTable& table,
                                                     const Reachability& reachability,
                                                     const std::vector<int>& cuts);

}  // namespace weft::planner
