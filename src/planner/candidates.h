// A search looks at these workers: all that can hold some layer, or the most capable where there
// are too many. A sentence tells about each of the others.
#pragma once

#include <vector>

#include "planner/cost_model.h"

namespace weft::planner {

struct CandidateSet {
  std::vector<int> workers;             // ascending
  std::vector<int> dropped;             // could hold layers, but are too many
  std::vector<LeftOutWorker> left_out;  // the dropped and the unusable
};

CandidateSet FindCandidates(const CostModel& model, const std::vector<WorkerMetrics>& workers);

// No plan with workers of the whole set, the dropped ones too, costs less. For latency the relaxed
// way of price_path.h without loading, dropped workers without price; for throughput by counting
// what compute all can do. `prices`: [row of set.workers]. O(m n^2).
double RelaxedBound(const CostModel& model, const CandidateSet& set,
                    const std::vector<double>& prices);

}  // namespace weft::planner
