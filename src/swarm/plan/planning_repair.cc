// Holes of the active plan: what is to be filled, by whom, and how long that takes.
#include <algorithm>

#include "base/check.h"
#include "planner/planner.h"
#include "swarm/plan/planning.h"

namespace weft::swarm {
namespace {

bool NeedsWorker(const PlanStage& stage, const Roster& roster) {
  return stage.IsHole() || roster.Find(stage.worker)->leaves_at;
}

// The first range of a plan that nobody runs, or somebody who leaves; neighbouring ones taken
// together.
std::optional<LayerSpan> HoleOf(const SwarmPlan& plan, const Roster& roster) {
  std::optional<LayerSpan> hole;
  for (const PlanStage& stage : plan.stages) {
    const bool open = NeedsWorker(stage, roster);
    if (open && hole && hole->form == stage.form)
      hole->end = stage.end;
    else if (open)
      hole = stage.layers();
    else if (hole)
      break;
  }
  return hole;
}

}  // namespace

// Nothing where plans are not repaired but searched for.
std::optional<LayerSpan> Planning::HoleToFill() const {
  const SwarmPlan* active = lifecycle_.active();
  return active && !whole_on_ && !wants_steady_ ? HoleOf(*active, roster_) : std::nullopt;
}

void Planning::StartRepair(LayerSpan hole, std::vector<PlanStage> filling, Instant now) {
  std::vector<planner::WorkerMetrics> metrics;
  planner::RepairProblem problem;
  problem.first_layer = static_cast<int>(hole.first);
  problem.end_layer = static_cast<int>(hole.end);
  problem.replay_rows = live_rows_;
  problem.chunk_rows = options_.prefill_chunk_rows;
  Job job;
  job.hole = hole;
  job.form = hole.form;
  for (const WorkerId id : Eligible(job.form, now)) {
    const Worker& worker = *roster_.Find(id);
    planner::RepairCandidate candidate;
    candidate.worker = static_cast<int>(job.workers.size());
    // Standbys of other layers would make room.
    LayerSet held(costs_.layer_count()), hubs(costs_.layer_count());
    LayerSet loaded(costs_.layer_count());
    for (const Binding& binding : *worker.bindings) {
      if (lifecycle_.active()->Uses(binding.id)) {
        held.Add(binding.layers);
        if (binding.layers.is_hub()) hubs.Add(binding.layers);
      }
      if (binding.loaded && binding.layers.form == hole.form) loaded.Add(binding.layers);
    }
    for (const PlanStage& stage : filling) {
      if (stage.worker != id) continue;
      held.Add(stage.layers());
      if (IsHub(stage.form)) hubs.Add(stage.layers());
    }
    // What it has loaded of the hole costs nothing more, unless it has to go for what it is to hold
    // in holes before this one.
    const uint64_t without_bytes = costs_.MemoryBytes(worker.memory->weight_factor, held, hubs);
    for (uint32_t layer = hole.first; layer < hole.end; ++layer) {
      if (!loaded.Has(layer)) continue;
      held.Add(layer);
      if (hole.is_hub()) hubs.Add(layer);
    }
    uint64_t held_bytes = costs_.MemoryBytes(worker.memory->weight_factor, held, hubs);
    const bool stays = held_bytes <= worker.limit->bytes;
    if (!stays) held_bytes = without_bytes;
    candidate.loaded_layers.assign(costs_.layer_count(), false);
    for (uint32_t layer = 0; stays && layer < costs_.layer_count(); ++layer)
      candidate.loaded_layers[layer] = loaded.Has(layer);
    candidate.free_bytes = worker.limit->bytes - std::min(held_bytes, worker.limit->bytes);
    problem.candidates.push_back(std::move(candidate));
    metrics.push_back(MetricsOf(worker, job.form, now));
    job.workers.push_back(id);
  }
  if (job.workers.empty()) return StartSearch(now);
  changes_.TakePlan();
  job.filling = std::move(filling);
  StartPlanning start = PlanningJob(costs_, std::move(metrics), Context(now), job.form);
  start.repair = std::move(problem);
  Start(std::move(job), std::move(start));
}

// The active plan with these stages, in order, in its holes; a hole that none of them is for stays
// one. nullopt: they do not fill the holes that there are now.
std::optional<SwarmPlan> Planning::Filled(const std::vector<PlanStage>& filling) const {
  SwarmPlan plan;
  size_t used = 0;
  uint32_t filled_end = 0;
  for (const PlanStage& stage : lifecycle_.active()->stages) {
    const bool open = NeedsWorker(stage, roster_);
    for (; open && used < filling.size() && filling[used].first < stage.end &&
           filling[used].first == std::max(filled_end, stage.first);
         ++used) {
      plan.stages.push_back(filling[used]);
      filled_end = filling[used].end;
    }
    if (filled_end <= stage.first)
      plan.stages.push_back(stage);
    else if (!open || filled_end < stage.end)
      return std::nullopt;
  }
  if (used < filling.size()) return std::nullopt;
  for (const PlanStage& stage : plan.stages) plan.predicted_us += stage.predicted_us;
  return plan;
}

// The active plan with its holes filled, one after the other, becomes the staged one: the bindings
// of the other stages stay what they are.
void Planning::OnRepairFound(const planner::PlanOutcome& outcome, Job job, Instant now) {
  if (lifecycle_.active() == nullptr) return Want(now);
  std::optional<SwarmPlan> next = Filled(job.filling);
  if (!next || HoleOf(*next, roster_) != job.hole) return Want(now);
  if (outcome.plan) {
    for (const planner::StageAssignment& part : outcome.plan->stages)
      job.filling.push_back(StageOf(part, job));
    next = Filled(job.filling);
    if (!next) return Want(now);
    if (const auto another = HoleOf(*next, roster_))
      return StartRepair(*another, std::move(job.filling), now);
  } else if (job.filling.empty() || next->HasHole()) {
    return StartSearch(now);  // with other cuts
  }
  lifecycle_.Stage(std::move(*next), now);
  changes_.Note({.standbys = true});
  Want(now + options_.timeouts.join_debounce);
}

}  // namespace weft::swarm
