// Planner: which worker runs which layers. Pure numbers in, a plan out: no clock, no sockets, no
// global state, no threads; the same arguments always give the same plan. Everything here may be
// called from any thread. The cost model is dynamic-graph-partitioning 5.2, the search is described
// in docs/planner.md.
#pragma once

#include <optional>
#include <vector>

#include "planner/problem.h"

namespace weft::planner {

// The cheapest plan by Plan::total_cost over all orders, cuts and subsets of the workers (exact up
// to exact_worker_limit workers; a good one beyond). Layers that make no sense give no plan and a
// `problem`.
PlanOutcome FindPlan(const std::vector<LayerCost>& layers,
                     const std::vector<WorkerMetrics>& workers, const PlanContext& context);

// The costs of given stages (only worker and range of each are read) with the metrics of now, e.g.
// of the active plan before AcceptPlan, or to compare prediction with measurement. nullopt in three
// cases: the stages are not a contiguous cover from layer 0 by distinct, usable workers, they cut
// layers that are kept together, or a stage exceeds its worker's memory.
std::optional<Plan> EvaluatePlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context,
                                 const std::vector<StageAssignment>& stages);

// 5.2.4: C_total(candidate) < tau * C_exec(current). `current_exec_us`: EvaluatePlan(...)->exec_us
// of the active plan, or infinity where there is none.
bool AcceptPlan(const Plan& candidate, double current_exec_us, const PlanContext& context);

// Whether `candidate` is worth its move, the default rule. `current_cost_us`: EvaluatePlan(...) of
// the plan that serves, its total_cost, or infinity where nothing serves. True if the candidate is
// better by more than the measurements' noise (1 - tau), and wins more than its price. It wins from
// the moment it is ready to the expected next change. The price is the pause, the rows computed
// again and the moved bytes. No clock is waited for. With PlanRule::kThesis: AcceptPlan.
bool AcceptMove(const Plan& candidate, double current_cost_us, const MovePrice& price,
                const PlanContext& context);

// The same workers in the same order, with the boundaries between them where the slowest stage is
// least busy (balance.h). nullopt as of EvaluatePlan.
std::optional<Plan> EvenedOut(const std::vector<LayerCost>& layers,
                              const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                              const std::vector<StageAssignment>& stages);

// The same where several streams fill the pipeline: `candidate` costs one of them no more than
// MostEvenUs, and its slowest stage is better by more than the noise. 28 layers that two
// equal devices hold as 22 and 6, since one was timed while it compiled: 14 and 14 give all streams
// together 1.57 times the tokens. Never by PlanRule::kThesis.
bool AcceptEvenMove(const Plan& candidate, const Plan& current, const MovePrice& price,
                    const PlanContext& context);

// One worker or several together fill a hole in the plan soonest: by their layers in memory and on
// disk, and by their keys and values. Least downtime; among those within 20 ms or a tenth of it,
// least time per token, expected departures included where the context names a token_us. Exact for
// up to ten candidates that matter, beyond that for the ten most promising. nullopt: they cannot
// hold the hole together, or it ends among layers that are kept together.
std::optional<Repair> RepairPlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context, const RepairProblem& problem);

// What can be left out of the cost model, to see what it is good for (7.5).
enum class Metric { kSpeed, kOverhead, kLatency, kBandwidth };
// The workers as if that took no time. EvaluatePlan with the real ones says what a plan for them is
// worth.
std::vector<WorkerMetrics> WithoutMetric(std::vector<WorkerMetrics> workers, Metric metric);

}  // namespace weft::planner
