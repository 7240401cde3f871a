// This search finds the optimal assignment by dynamic programming over worker subsets.
//
// C_total = sum(exec + (1 - alpha) init) + alpha * max(init). The sum is minimised by
//   best[S][i] = min over w in S, x < i of best[S \ w][x] + sum(w, x, i),
// where S is the set of workers used for layers [0, i). Orders disappear, because a star topology
// makes a stage's cost independent of its neighbours. The state would need the last worker, too,
// with direct links. cap_search.h handles the max. It and docs/planner.md say why this is exact.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/cost_model.h"

namespace weft::planner {

// The work that a search did, for tests and benchmarks.
struct ExactSearchStats {
  int passes = 0;            // dynamic programs run, one per cap tried
  uint64_t transitions = 0;  // (set, start, worker, end) looked at in all passes
};

// Gives nullopt when no assignment covers all layers. `total_cost` of the result is within a
// relative 1e-12 of the optimum. Time O(passes * 2^m m n^2), memory O(2^m n). REQUIRES: at most 16
// workers, at least one layer.
std::optional<Assignment> FindExact(const StageTable& table, ExactSearchStats* stats = nullptr);

}  // namespace weft::planner
