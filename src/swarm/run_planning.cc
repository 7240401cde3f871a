// The body of a planning job, for whatever thread the host gives it.
#include "planner/planner.h"
#include "swarm/events.h"

namespace weft::swarm {

planner::PlanOutcome RunPlanning(const StartPlanning& job) {
  if (!job.standby_of) return planner::FindPlan(job.layers, job.workers, job.context);
  planner::StandbyOutcome standby =
      planner::FindStandby(job.layers, job.workers, job.context, *job.standby_of);
  planner::PlanOutcome outcome;
  outcome.plan = std::move(standby.plan);
  outcome.strategy = standby.strategy;
  return outcome;
}

}  // namespace weft::swarm
