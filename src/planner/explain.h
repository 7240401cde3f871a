// The planner's words for people: numbers with units, and the reasons behind a plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost_model.h"

namespace weft::planner {

std::string FormatBytes(double bytes);      // "1.2 GB", "512.0 MB"; decimal units
std::string FormatMicroseconds(double us);  // "850 us", "12.3 ms", "4.2 s"
// [first, end) in the words of the pages: "the embedding and layers 1-3", "layer 8 and the head",
// "the whole model". REQUIRES: 0 <= first < end <= layer_count.
std::string FormatLayers(int first, int end, int layer_count);

// "exact", "by annealing", ...: in a sentence after "search" or "shared out"
std::string_view SearchStrategyName(SearchStrategy strategy);

// Why a worker of `table` has no stage in `chosen`: what the best stage for it, cut out of its
// neighbours, would change. `row`: its row in the table.
std::string WhyLeftOut(const StageTable& table, const std::vector<StageChoice>& chosen, int row);

// "at the limit of its memory" notes and the like for a plan.
// REQUIRES: outcome.plan.
std::vector<std::string> PlanNotes(const CostModel& model,
                                   const std::vector<WorkerMetrics>& workers,
                                   const PlanOutcome& outcome, int candidate_count);

// For people: stages with their layers and predicted times, tokens per second, who was left out and
// why, or what is missing. Ends with a newline. `workers` and `layers` are those given to FindPlan.
std::string ExplainPlan(const std::vector<LayerCost>& layers,
                        const std::vector<WorkerMetrics>& workers, const PlanOutcome& outcome);

}  // namespace weft::planner
