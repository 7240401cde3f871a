#include "swarm/planning.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "planner/planner.h"
#include "swarm/pipeline.h"

namespace weft::swarm {

StartPlanning PlanningJob(const Costs& costs, std::vector<planner::WorkerMetrics> workers,
                          const planner::PlanContext& context) {
  StartPlanning job;
  job.layers = costs.layers();
  job.workers = std::move(workers);
  job.context = context;
  return job;
}

Planning::Planning(const CoreOptions& options, const Costs& costs, Roster& roster,
                   Lifecycle& lifecycle, const Probation& probation, Outbox& outbox)
    : options_(options),
      costs_(costs),
      roster_(roster),
      lifecycle_(lifecycle),
      probation_(probation),
      outbox_(outbox) {}

void Planning::Want(Instant at) {
  want_at_ = want_at_ ? std::min(*want_at_, at) : at;
}

void Planning::OnWorkerGone(WorkerId worker, Instant now) {
  std::erase(standby_workers_, worker);
  if (whole_on_ == worker) {
    whole_on_.reset();
    Want(now);
  }
  NoteRosterChange();
  if (job_ &&
      std::find(job_->workers.begin(), job_->workers.end(), worker) != job_->workers.end()) {
    job_.reset();
    Want(now);
  }
  if (!lifecycle_.active()) Want(now);
}

// While a plan serves, a worker is timed before it is planned with: a guess could put a slow one
// into the chain.
bool Planning::IsEligible(const Worker& worker, Instant now) const {
  if (!worker.ready || probation_.IsAside(worker.probation_key, now)) return false;
  if (!options_.model.lowered && !worker.offer.needs_onnx) return false;
  return worker.SpeedKnown() || !lifecycle_.active() || lifecycle_.IsUsed(worker.id);
}

planner::PlanContext Planning::Context(Instant now) const {
  planner::PlanContext context;
  context.rule = planner::PlanRule::kThesis;
  context.up = lifecycle_.active() != nullptr;
  context.since_redistribution = now - lifecycle_.last_swap();
  return context;
}

bool Planning::IsBlocked() const {
  return job_ || lifecycle_.paused() || (lifecycle_.active() && lifecycle_.staged());
}

void Planning::Settle(Instant now) {
  if (IsBlocked()) return;
  if (!want_at_ && lifecycle_.active() && now >= last_search_ + options_.timeouts.replan_interval)
    want_at_ = now;
  if (want_at_ && now >= *want_at_) StartJob(now, false);
}

std::optional<Instant> Planning::next_timer() const {
  if (IsBlocked()) return std::nullopt;
  if (want_at_) return want_at_;
  if (lifecycle_.active()) return last_search_ + options_.timeouts.replan_interval;
  return std::nullopt;
}

void Planning::StartJob(Instant now, bool standby) {
  std::vector<planner::WorkerMetrics> metrics;
  Job job;
  for (const auto& [id, worker] : roster_) {
    if (!standby && whole_on_ ? id != *whole_on_ : !IsEligible(worker, now)) continue;
    job.workers.push_back(id);
    metrics.push_back(costs_.Metrics(worker));
  }
  if (!standby) {
    want_at_.reset();
    last_search_ = now;
    if (job.workers.empty()) return OnNothingFound({}, {});
  }
  StartPlanning start = PlanningJob(costs_, std::move(metrics), Context(now));
  if (standby) {
    standby_wanted_ = false;
    const SwarmPlan& active = *lifecycle_.active();
    planner::Plan current;
    for (const PlanStage& stage : active.stages) {
      const auto at = std::find(job.workers.begin(), job.workers.end(), stage.worker);
      if (at == job.workers.end()) return;
      planner::StageAssignment assignment;
      assignment.worker = static_cast<int>(at - job.workers.begin());
      assignment.first_layer = static_cast<int>(stage.first);
      assignment.end_layer = static_cast<int>(stage.end);
      current.stages.push_back(assignment);
    }
    auto evaluated =
        planner::EvaluatePlan(start.layers, start.workers, start.context, current.stages);
    if (!evaluated) return;
    start.standby_of = std::move(*evaluated);
  }
  job.standby = standby;
  job.work = start.work = next_work_++;
  job_ = std::move(job);
  outbox_.Add(std::move(start));
}

void Planning::OnFound(const PlanFound& found, Instant now) {
  if (!job_ || found.work != job_->work) return;
  const Job job = std::move(*job_);
  job_.reset();
  if (job.standby) {
    standby_workers_.clear();
    if (!found.outcome.plan || !lifecycle_.active()) return;
    for (const planner::StageAssignment& stage : found.outcome.plan->stages) {
      const WorkerId id = job.workers[static_cast<size_t>(stage.worker)];
      standby_workers_.push_back(id);
      lifecycle_.Download(*roster_.Find(id), static_cast<uint32_t>(stage.first_layer),
                          static_cast<uint32_t>(stage.end_layer));
    }
    outbox_.NoteChange();
    return;
  }
  if (!found.outcome.plan && whole_on_) {
    whole_on_.reset();  // it has less memory than it seemed
    return Want(now);
  }
  if (found.outcome.plan) {
    problem_.clear();
    missing_memory_bytes_ = 0;
    covered_end_ = costs_.layer_count();
    Consider(*found.outcome.plan, job.workers, now);
  } else {
    OnNothingFound(found.outcome, job.workers);
  }
  if (standby_wanted_ && !job_ && !want_at_ && lifecycle_.active() && !lifecycle_.staged())
    StartJob(now, true);
}

bool Planning::FitsWhole(const Worker& worker, Instant now) const {
  return worker.ready && CanGenerate(worker) && options_.model.lowered &&
         !probation_.IsAside(worker.probation_key, now) &&
         costs_.MemoryBytes(worker.memory.weight_factor, 0, costs_.layer_count()) <=
             worker.memory.limit;
}

bool Planning::IsChosen(const SwarmPlan* plan) const {
  return plan && whole_on_ && plan->stages.size() == 1 && plan->stages[0].worker == *whole_on_;
}

void Planning::RunWholeOn(Worker& worker, bool wanted, Instant now) {
  worker.told.whole.reset();  // it gets an answer in any case
  if (wanted ? !FitsWhole(worker, now) : whole_on_ != worker.id) return;
  if (wanted)
    whole_on_ = worker.id;
  else
    whole_on_.reset();
  job_.reset();  // what is being looked for is not wanted any more
  NoteRosterChange();
  Want(now);
  outbox_.NoteChange();
}

void Planning::TellWhole(Instant now) {
  using State = wire::WholeModel::State;
  for (auto& [id, worker] : roster_) {
    if (!worker.ready || !CanGenerate(worker)) continue;
    const State state = whole_on_ == id          ? State::kHere
                        : FitsWhole(worker, now) ? State::kFits
                                                 : State::kTooLarge;
    if (worker.told.whole == state) continue;
    worker.told.whole = state;
    SendData data{id, {}};
    data.pieces.emplace_back(wire::EncodeGeneration(wire::WholeModel{state}));
    outbox_.Add(std::move(data));
  }
}

std::optional<planner::Plan> Planning::Evaluate(const SwarmPlan& plan, Instant now) const {
  std::vector<planner::WorkerMetrics> metrics;
  std::vector<planner::StageAssignment> stages;
  for (const PlanStage& stage : plan.stages) {
    planner::StageAssignment assignment;
    assignment.worker = static_cast<int>(metrics.size());
    assignment.first_layer = static_cast<int>(stage.first);
    assignment.end_layer = static_cast<int>(stage.end);
    stages.push_back(assignment);
    metrics.push_back(costs_.Metrics(*roster_.Find(stage.worker)));
  }
  return planner::EvaluatePlan(costs_.layers(), metrics, Context(now), stages);
}

void Planning::Consider(const planner::Plan& plan, const std::vector<WorkerId>& workers,
                        Instant now) {
  if (lifecycle_.paused()) return Want(now);
  SwarmPlan next;
  next.predicted_us = plan.exec_us;
  for (const planner::StageAssignment& stage : plan.stages)
    next.stages.push_back({workers[static_cast<size_t>(stage.worker)],
                           static_cast<uint32_t>(stage.first_layer),
                           static_cast<uint32_t>(stage.end_layer), stage.exec_us, false, false});
  // The search took a while: what was learnt since may have made its plan impossible.
  if (!Evaluate(next, now)) return Want(now);
  const planner::PlanContext context = Context(now);
  bool accepted = true;
  if (IsChosen(&next)) {
    accepted = !IsChosen(lifecycle_.active()) && !IsChosen(lifecycle_.staged());
  } else if (const SwarmPlan* active = lifecycle_.active()) {
    if (lifecycle_.staged()) return;  // one swap at a time
    const auto current = Evaluate(*active, now);
    accepted = planner::AcceptPlan(
        plan, current ? current->exec_us : std::numeric_limits<double>::infinity(), context);
  } else if (const SwarmPlan* staged = lifecycle_.staged()) {
    // Both still have to be loaded, so both count with what they need for that.
    const auto current = Evaluate(*staged, now);
    accepted = !current || plan.total_cost < context.constants.tau * current->total_cost;
  }
  if (!accepted) return;
  NoteRosterChange();
  lifecycle_.Stage(std::move(next), now);
}

void Planning::OnNothingFound(const planner::PlanOutcome& outcome,
                              const std::vector<WorkerId>& workers) {
  outbox_.NoteChange();
  missing_memory_bytes_ = outcome.missing_memory_bytes;
  covered_end_ = 0;
  if (workers.empty()) {
    problem_ = "No device computes for this swarm yet: open the join link on a device.";
    for (const auto& [id, worker] : roster_)
      if (worker.ready)
        problem_ =
            "The devices that have joined cannot be used: open the join link on another one.";
    return;
  }
  problem_ = outcome.problem;
  if (missing_memory_bytes_ > 0)
    problem_ = "This swarm needs " + HumanBytes(missing_memory_bytes_) +
               " more memory: open the join link on another device.";
  if (!outcome.partial) return;
  for (const planner::StageAssignment& stage : outcome.partial->stages) {
    Worker* worker = roster_.Find(workers[static_cast<size_t>(stage.worker)]);
    lifecycle_.Download(*worker, static_cast<uint32_t>(stage.first_layer),
                        static_cast<uint32_t>(stage.end_layer));
    covered_end_ = std::max(covered_end_, static_cast<uint32_t>(stage.end_layer));
  }
}

bool Planning::IsStandby(WorkerId worker) const {
  return std::find(standby_workers_.begin(), standby_workers_.end(), worker) !=
         standby_workers_.end();
}

}  // namespace weft::swarm
