// Planner: which worker runs which layers. Pure numbers in, a plan out: no clock, no sockets, no
// global state, no threads; the same arguments always give the same plan. Everything here may be
// called from any thread. The cost model is dynamic-graph-partitioning 5.2, the search is described
// in docs/planner.md.
#pragma once

#include <optional>
#include <vector>

#include "planner/problem.h"

namespace weft::planner {

// Gives the cheapest plan by Plan::total_cost over all orders, cuts and subsets of the workers. It
// is exact up to exact_worker_limit workers, and a good one beyond. Layers that make no sense give
// no plan and a `problem`.
PlanOutcome FindPlan(const std::vector<LayerCost>& layers,
                     const std::vector<WorkerMetrics>& workers, const PlanContext& context);

// Gives the costs of these stages with the metrics of now; only worker and range of each are read.
// They may be those of the active plan before AcceptPlan, or of a prediction to compare with. Gives
// nullopt in three cases. The stages are not a contiguous cover from layer 0 by distinct, usable
// workers. They cut layers that are kept together. A stage exceeds its worker's memory.
std::optional<Plan> EvaluatePlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context,
                                 const std::vector<StageAssignment>& stages);

// Tells whether C_total(candidate) < tau * C_exec(current) (5.2.4). `current_exec_us` is
// EvaluatePlan(...)->exec_us of the active plan, or infinity where there is none.
bool AcceptPlan(const Plan& candidate, double current_exec_us, const PlanContext& context);

// Tells whether `candidate` is worth its move, by the default rule. `current_cost_us` is the
// total_cost of the plan that serves (EvaluatePlan), or infinity where nothing serves. The
// candidate must be better by more than the measurements' noise (1 - tau), and win more than its
// price. It wins from the moment it is ready to the expected next change. The price is the pause,
// the rows computed again and the moved bytes. No clock is waited for. PlanRule::kThesis means
// AcceptPlan.
bool AcceptMove(const Plan& candidate, double current_cost_us, const MovePrice& price,
                const PlanContext& context);

// Gives the same workers in the same order, with the boundaries between them where the slowest
// stage is least busy (balance.h). Gives nullopt where EvaluatePlan does.
std::optional<Plan> EvenedOut(const std::vector<LayerCost>& layers,
                              const std::vector<WorkerMetrics>& workers, const PlanContext& context,
                              const std::vector<StageAssignment>& stages);

// Tells the same where several streams fill the pipeline. `candidate` costs one of them no more
// than MostEvenUs, and its slowest stage is better by more than the noise. Two equal devices, for
// example, hold 28 layers as 22 and 6, since one was timed while it compiled. 14 and 14 give all
// streams together 1.57 times the tokens. PlanRule::kThesis always says no.
bool AcceptEvenMove(const Plan& candidate, const Plan& current, const MovePrice& price,
                    const PlanContext& context);

// Finds one worker or several that together fill a hole in the plan soonest. Their layers in memory
// and on disk count, and their keys and values. The least downtime wins; among those within 20 ms
// or a tenth of it, the least time per token. Expected departures count where the context names a
// token_us. The search is exact for up to ten candidates that matter, and beyond that for the ten
// most promising. Gives nullopt where they cannot hold the hole together, or where it ends among
// layers that are kept together.
std::optional<Repair> RepairPlan(const std::vector<LayerCost>& layers,
                                 const std::vector<WorkerMetrics>& workers,
                                 const PlanContext& context, const RepairProblem& problem);

// The parts that may be left out of the cost model, to see what they are good for (7.5).
enum class Metric { kSpeed, kOverhead, kLatency, kBandwidth };
// Gives the workers as if that took no time. EvaluatePlan with the real ones says what a plan for
// them is worth.
std::vector<WorkerMetrics> WithoutMetric(std::vector<WorkerMetrics> workers, Metric metric);

}  // namespace weft::planner
