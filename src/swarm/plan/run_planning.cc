// The body of a planning job, for whatever thread the host gives it.
#include "planner/planner.h"
#include "swarm/events.h"

namespace weft::swarm {

planner::PlanOutcome RunPlanning(const StartPlanning& job) {
  if (!job.repair) return planner::FindPlan(job.layers, job.workers, job.context);
  planner::PlanOutcome outcome;
  if (auto repair = planner::RepairPlan(job.layers, job.workers, job.context, *job.repair)) {
    outcome.plan.emplace();
    outcome.plan->stages = std::move(repair->stages);
    outcome.plan->exec_us = repair->exec_us;
  }
  return outcome;
}

}  // namespace weft::swarm
