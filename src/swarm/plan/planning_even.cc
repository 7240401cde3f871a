// Evens out the active plan by what its stages take while several conversations decode. Single rows
// do not tell: a GPU with little to do lowers its clock, so that each of its layers looks slow, and
// rows cost one device more than another.
//
// Example: two equal GPUs have 6 and 32 layers. One row takes them 2.7 and 4.5 ms: by that, a layer
// costs 0.45 and 0.14 ms, and moving one gains nothing. Eight rows take 4.8 and 10.2 ms, so that
// four more layers are expected to make 8.0 and 8.9 of it. Both are too much: part of a step has
// nothing to do with layers. So the next look moves some more, and none moves too many.
#include <algorithm>

#include "planner/planner.h"
#include "swarm/plan/planning.h"

namespace weft::swarm {

std::optional<SwarmPlan> Planning::MoreEven(Instant now) const {
  const SwarmPlan& active = *lifecycle_.active();
  const auto stage_count = static_cast<uint32_t>(active.stages.size());
  if (live_requests_ < 2 || stage_count < 2 || active.is_hub()) return std::nullopt;
  const uint32_t rows = (live_requests_ + stage_count - 1) / stage_count;  // of a group's step
  std::vector<planner::WorkerMetrics> metrics;
  const std::vector<planner::StageAssignment> stages = AssignmentsOf(active);
  for (const PlanStage& stage : active.stages) {
    const Worker* worker = roster_.Find(stage.worker);
    const auto step_us =
        worker != nullptr ? worker->times.computed.ExpectedUs(rows) : std::optional<double>();
    if (!step_us || *step_us <= 0) return std::nullopt;
    metrics.push_back(MetricsOf(*worker, active.form(), now));
    metrics.back().session_overhead_us = 0;
    metrics.back().compute_speed = std::max(costs_.Cost(stage.layers()), 1.0) / *step_us;
  }
  const std::vector<planner::LayerCost>& layers = costs_.layers(active.form());
  planner::PlanContext context = Context(now);
  context.token_us = 0;  // that of single rows
  const auto current = planner::EvaluatePlan(layers, metrics, context, stages);
  const auto even = planner::EvenedOut(layers, metrics, context, stages);
  if (!current || !even) return std::nullopt;
  SwarmPlan next = active;
  for (size_t i = 0; i < next.stages.size(); ++i) {
    next.stages[i].first = static_cast<uint32_t>(even->stages[i].first_layer);
    next.stages[i].end = static_cast<uint32_t>(even->stages[i].end_layer);
  }
  const auto expected = Evaluate(next, now);
  if (!expected) return std::nullopt;
  const planner::MovePrice price = PriceOf(*expected, next);
  if (!planner::AcceptEvenMove(*even, *current, price, context)) return std::nullopt;
  next.predicted_us = expected->exec_us;
  for (size_t i = 0; i < next.stages.size(); ++i)
    next.stages[i].predicted_us = expected->stages[i].exec_us;
  return next;
}

// Whether other devices than those of the active plan have a part in this one.
bool Planning::HasOthers(const SwarmPlan& plan) const {
  const SwarmPlan& active = *lifecycle_.active();
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const PlanStage& stage) {
    return active.StageOf(stage.worker) == nullptr;
  });
}

}  // namespace weft::swarm
