// What the loss of each worker of a plan costs: how long streams stand still, who takes over, and
// what is left.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/problem.h"

namespace weft::planner {

struct Loss {
  int worker = 0;  // of the plan
  // Who fills its layers soonest beside what it runs itself; nullopt: they cannot, and everybody
  // waits for `after`.
  std::optional<Repair> repair;
  // The best plan without the worker, once the others have their layers on disk; nullopt: there is
  // none, and so much memory is missing. A repair may be possible all the same, since a neighbour
  // may hold a second range beside its own.
  std::optional<Plan> after;
  uint64_t missing_memory_bytes = 0;
  // Streams stand still for so long; infinite where there is neither.
  double downtime_us = 0;
};

// For every stage of `plan` that of its worker, in that order: nobody stands by, `replay_rows` rows
// of live sessions are recomputed. `plan` covers all layers, as FindPlan gives it for `workers`.
std::vector<Loss> FindLosses(const std::vector<LayerCost>& layers,
                             const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                             const Plan& plan, uint64_t replay_rows);

// A line for each loss. Ends with a newline.
std::string DescribeLosses(const std::vector<WorkerMetrics>& workers, int layer_count,
                           const std::vector<Loss>& losses);

}  // namespace weft::planner
