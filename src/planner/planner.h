// Planner: which worker runs which layers. Pure numbers in, a plan out: no clock, no sockets, no
// global state, no threads; the same arguments always give the same plan. Everything here may be
// called from any thread. The cost model is dynamic-graph-partitioning 5.2, the search is described
// in docs/planner.md.
#pragma once

#include <optional>
#include <vector>

#include "planner/problem.h"

namespace weft::planner {

// The cheapest plan by C_total over all orders, cuts and subsets of the workers (exact up to
// exact_worker_limit workers; a good one beyond). Layers that make no sense give no plan and a
// `problem`.
PlanOutcome FindPlan(const std::vector<LayerCost>& layers,
                     const std::vector<WorkerMetrics>& workers, const PlanContext& context);

// The costs of given stages (only worker and range of each are read) with the metrics of now, e.g.
// of the active plan before AcceptPlan, or to compare prediction with measurement. nullopt: the
// stages are not a contiguous cover from layer 0 by distinct, usable workers, or a stage exceeds
// its worker's memory.
std::optional<Plan> EvaluatePlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context,
                                 const std::vector<StageAssignment>& stages);

// 5.2.4: C_total(candidate) < tau * C_exec(current). `current_exec_us`: EvaluatePlan(...)->exec_us
// of the active plan, or infinity where there is none.
bool AcceptPlan(const Plan& candidate, double current_exec_us, const PlanContext& context);

// 5.2.5: a second plan to hold ready. Strict spares first, then redundancy: a worker of `current`
// may take layers that it does not run, in the memory that its current stage leaves free, at lambda
// times the init cost.
StandbyOutcome FindStandby(const std::vector<LayerCost>& layers,
                           const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                           const Plan& current);

}  // namespace weft::planner
