// Plans for people: what is in them, and the reasons behind them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost_model.h"
#include "planner/words.h"

namespace weft::planner {

// "exact", "by annealing", ...: in a sentence after "search" or "shared out"
std::string_view SearchStrategyName(SearchStrategy strategy);

// Which layer fits no device, and by how much. REQUIRES: `oversized` is not empty.
std::string OversizedSentence(const std::vector<LayerCost>& layers,
                              const std::vector<WorkerMetrics>& workers,
                              const std::vector<OversizedLayer>& oversized);

// Why a worker of `table` has no stage in `chosen`: what the best stage for it, cut out of its
// neighbours, would change. `row`: its row in the table.
std::string WhyLeftOut(const StageTable& table, const std::vector<StageChoice>& chosen, int row);

// "at the limit of its memory" notes and the like for a plan.
// REQUIRES: outcome.plan.
std::vector<std::string> PlanNotes(const CostModel& model,
                                   const std::vector<WorkerMetrics>& workers,
                                   const PlanOutcome& outcome, int candidate_count);

// For people: a drawing, stages with their layers and predicted times, tokens per second and the
// lower bound. It also says who was left out and why, or what is missing. Ends with a newline.
// `workers` and `layers` are those given to FindPlan.
std::string ExplainPlan(const std::vector<LayerCost>& layers,
                        const std::vector<WorkerMetrics>& workers, const PlanOutcome& outcome);

}  // namespace weft::planner
