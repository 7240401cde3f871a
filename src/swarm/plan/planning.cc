#include "swarm/plan/planning.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "planner/planner.h"

namespace weft::swarm {
namespace {

// A plan that is being loaded is replaced by one that takes so much less time at most.
constexpr double kBetterThanStaged = 0.8;
constexpr Duration kNoteWaitsInterval = Seconds(1);

LayerSpan SpanOf(const planner::StageAssignment& stage, LayerForm form) {
  return {static_cast<uint32_t>(stage.first_layer), static_cast<uint32_t>(stage.end_layer), form};
}

}  // namespace

StartPlanning PlanningJob(const Costs& costs, std::vector<planner::WorkerMetrics> workers,
                          const planner::PlanContext& context, LayerForm form) {
  StartPlanning job;
  job.layers = costs.layers(form);
  job.workers = std::move(workers);
  job.context = context;
  job.context.constants.delta_us = kServerStepUs;
  return job;
}

Planning::Planning(const CoreOptions& options, const Costs& costs, Roster& roster,
                   Lifecycle& lifecycle, const Probation& probation, const Checks& checks,
                   Members& members, Changes& changes, Outbox& outbox)
    : options_(options),
      costs_(costs),
      roster_(roster),
      lifecycle_(lifecycle),
      probation_(probation),
      checks_(checks),
      members_(members),
      changes_(changes),
      outbox_(outbox) {}

void Planning::Want(Instant at) {
  changes_.Note({.plan_at = at});
}

void Planning::OnWorkerGone(WorkerId worker, Instant now) {
  back_.erase(worker);
  if (whole_on_ == worker) {
    whole_on_.reset();
    Want(now);
  }
  changes_.Note({.standbys = true});
  if (wants_steady_) {
    steady_more_ = 0;
    Want(now);
  }
  if (lifecycle_.active() && lifecycle_.active()->HasHole()) {
    ++losses_;
    if (!hole_since_) hole_since_ = now;
  }
  const auto counts_on = [worker](const Job& job) {
    return std::find(job.workers.begin(), job.workers.end(), worker) != job.workers.end();
  };
  if (job_ && (counts_on(*job_) || (other_ && counts_on(other_->job)))) {
    job_.reset();
    Want(now);
  }
  if (!lifecycle_.serves()) Want(now);
}

bool Planning::MayCompute(const Worker& worker, LayerForm form, Instant now) const {
  return worker.ready && !worker.leaves_at && !worker.loading->paused_until &&
         !probation_.IsAside(worker.probation_key, now) && checks_.MayCompute(worker) &&
         CanCompute(worker.offer, options_.model) &&
         (form == LayerForm::kWhole || CanBeHub(worker.offer, options_));
}

// While a plan serves, a worker is timed before it is planned with: a guess could put a slow one
// into the chain. One that has no room for two whole layers cannot be timed; as a hub it would have
// room, and how far holders are away says more of its time than how fast it is.
bool Planning::IsEligible(const Worker& worker, LayerForm form, Instant now) const {
  const bool is_timed = worker.SpeedKnown() || (IsHub(form) && worker.measure->tried &&
                                                worker.measure->phase == MeasureJob::Phase::kNone);
  return MayCompute(worker, form, now) &&
         (!lifecycle_.serves() || lifecycle_.IsUsed(worker.id) ||
          (is_timed && !IsNewcomer(worker, now) && checks_.MayServe(worker)));
}

std::vector<WorkerId> Planning::Eligible(LayerForm form, Instant now) const {
  const std::optional<WorkerId> served = IsHub(form) ? ServedHub(now) : std::nullopt;
  std::vector<WorkerId> eligible;
  for (const auto& [id, worker] : roster_) {
    if (IsHub(form) && worker.offer.rows_to_server && id != served) continue;
    if (IsEligible(worker, form, now)) eligible.push_back(id);
  }
  return eligible;
}

// The one that serves goes on.
std::optional<WorkerId> Planning::ServedHub(Instant now) const {
  std::vector<DeviceNumbers> devices;
  std::vector<WorkerId> ids;
  for (const auto& [id, worker] : roster_) {
    if (!worker.offer.rows_to_server || !IsEligible(worker, LayerForm::kHub, now)) continue;
    if (lifecycle_.active() && lifecycle_.active()->is_hub() && lifecycle_.IsUsed(id)) return id;
    devices.push_back(costs_.NumbersOf(worker));
    ids.push_back(id);
  }
  const std::optional<size_t> best = ServedHubOf(costs_, devices);
  return best ? std::optional(ids[*best]) : std::nullopt;
}

// While a plan serves, whoever comes stands by first: one that goes again before it has done
// anything takes nobody's answer with it.
bool Planning::IsNewcomer(const Worker& worker, Instant now) const {
  return worker.steps->tokens_computed == 0 && !back_.contains(worker.id) &&
         now < worker.connected_at + options_.timeouts.newcomer;
}

bool Planning::IsBlocked() const {
  return job_.has_value();
}

void Planning::Settle(Instant now) {
  if (first_seen_ == Instant{}) first_seen_ = now;
  if (hole_since_ && (lifecycle_.serves() || !lifecycle_.active())) {
    if (lifecycle_.serves()) repair_us_.Add(static_cast<double>((now - *hole_since_).us));
    hole_since_.reset();
  }
  if (waits_until_) {
    if (now < *waits_until_) return;
    StopWaiting();
    Want(now);
  }
  if (newcomers_at_ && now >= *newcomers_at_) {
    newcomers_at_.reset();
    Want(now);
  }
  if (lifecycle_.serves() && now >= waits_noted_ + kNoteWaitsInterval)
    NoteWaits(*lifecycle_.active(), now);
  if (IsBlocked()) return;
  if (!changes_.plan_at() && lifecycle_.active() &&
      now >= last_search_ + options_.timeouts.replan_interval)
    Want(now);
  if (changes_.plan_at() && now >= *changes_.plan_at()) {
    const auto hole = HoleToFill();
    if (!hole)
      StartSearch(now);
    else if (!lifecycle_.staged())
      StartRepair(*hole, {}, now);
  }
  if (changes_.standbys() && !job_ && lifecycle_.serves() && !lifecycle_.staged())
    ChooseStandbys(now);
}

std::optional<Instant> Planning::next_timer() const {
  if (waits_until_) return waits_until_;
  if (IsBlocked()) return std::nullopt;
  if (changes_.plan_at()) {
    // What is staged fills the hole, or is dropped: both are events.
    return lifecycle_.staged() && HoleToFill() ? std::nullopt : changes_.plan_at();
  }
  if (!lifecycle_.active()) return newcomers_at_;
  const Instant again = last_search_ + options_.timeouts.replan_interval;
  return newcomers_at_ ? std::min(*newcomers_at_, again) : again;
}

void Planning::Start(Job job, StartPlanning start) {
  job.work = start.work = next_work_++;
  job_ = std::move(job);
  outbox_.Add(std::move(start));
}

bool Planning::MayDoubt(const Worker& worker) const {
  return worker.memory->doubt == Doubt::kNone &&
         worker.memory->weight_factor > worker.offer.weight_factor;
}

bool Planning::WantsDoubtfulSearch(const Job& job) const {
  if (job.doubtful || changes_.plan_at() || lifecycle_.serves() || lifecycle_.staged())
    return false;
  return std::any_of(job.workers.begin(), job.workers.end(),
                     [this](WorkerId id) { return MayDoubt(*roster_.Find(id)); });
}

void Planning::NoteDoubt(const planner::Plan& plan, const Job& job) {
  for (const planner::StageAssignment& stage : plan.stages) {
    Worker& worker = *roster_.Find(job.workers[static_cast<size_t>(stage.worker)]);
    const uint64_t reported_bytes =
        costs_.MemoryBytes(worker.memory->weight_factor, SpanOf(stage, job.form));
    if (!MayDoubt(worker) || reported_bytes <= worker.limit->bytes) continue;
    lifecycle_.Doubt(worker);
  }
}

void Planning::StartSearch(Instant now, bool doubtful, LayerForm form) {
  std::vector<planner::WorkerMetrics> metrics;
  Job job;
  job.form = form;
  job.compares = options_.plan_kind == PlanKind::kAuto && !whole_on_ && HasChoice(options_.model);
  for (const auto& [id, worker] : roster_) {
    if (!whole_on_ && IsNewcomer(worker, now) && MayCompute(worker, job.form, now))
      LookAgainAt(worker.connected_at + options_.timeouts.newcomer);
    if (whole_on_ && id == *whole_on_) job.workers.push_back(id);
  }
  if (!whole_on_) job.workers = Eligible(job.form, now);
  if (wants_steady_ && !whole_on_) {
    job.left_out = job.workers.size();
    steady_ = job.workers = Steadiest(std::move(job.workers), now);
    job.left_out -= job.workers.size();
  }
  for (const WorkerId id : job.workers) {
    const Worker& worker = *roster_.Find(id);
    metrics.push_back(MetricsOf(worker, job.form, now));
    if (doubtful && MayDoubt(worker)) metrics.back().weight_factor = worker.offer.weight_factor;
  }
  job.doubtful = doubtful;
  changes_.TakePlan();
  last_search_ = now;
  if (job.workers.empty() && !other_) return OnNothingFound({}, job, now);
  if (job.workers.empty()) return Decide({}, std::move(job), now);
  // Lines change, and with them what is expected of whoever serves.
  if (lifecycle_.serves()) NoteWaits(*lifecycle_.active(), now);
  StartPlanning start = PlanningJob(costs_, std::move(metrics), Context(now), job.form);
  Start(std::move(job), std::move(start));
}

bool Planning::WantsOtherKind(const Job& job) const {
  return job.compares && job.form == LayerForm::kWhole;
}

void Planning::OnFound(const PlanFound& found, Instant now) {
  if (!job_ || found.work != job_->work) return;
  Job job = std::move(*job_);
  job_.reset();
  if (job.hole) return OnRepairFound(found.outcome, std::move(job), now);
  if (!found.outcome.plan && whole_on_) {
    whole_on_.reset();  // it has less memory than it seemed
    return Want(now);
  }
  if (WantsOtherKind(job)) {
    const bool doubtful = job.doubtful;
    other_ = Found{found.outcome, std::move(job)};
    return StartSearch(now, doubtful, LayerForm::kHub);
  }
  Decide(found.outcome, std::move(job), now);
}

// Of two kinds the one that takes less time for a token: that of hubs only where all experts find a
// place. Where neither can be, what whole layers lack is told.
void Planning::Decide(planner::PlanOutcome outcome, Job job, Instant now) {
  if (auto other = std::exchange(other_, std::nullopt)) {
    bool fits = false;
    if (outcome.plan) {
      std::vector<PlanStage> stages;
      for (const planner::StageAssignment& part : outcome.plan->stages)
        stages.push_back(StageOf(part, job));
      std::vector<WorkerId> ids;
      fits = ExpertsFit(options_.model, Lenders(stages, now, ids));
    }
    const bool layers_win = other->outcome.plan && (!fits || !HubsPay(other->outcome.plan->exec_us,
                                                                      outcome.plan->exec_us));
    if (!fits || layers_win) {
      outcome = std::move(other->outcome);
      job = std::move(other->job);
    }
  }
  if (!outcome.plan && WantsDoubtfulSearch(job)) return StartSearch(now, true);
  if (!outcome.plan && wants_steady_ && job.left_out > 0) {
    ++steady_more_;
    return StartSearch(now);
  }
  if (outcome.plan) {
    if (job.doubtful) NoteDoubt(*outcome.plan, job);
    problem_.clear();
    missing_memory_bytes_ = 0;
    covered_end_ = costs_.layer_count();
    Consider(*outcome.plan, job, now);
  } else if (!lifecycle_.serves()) {
    OnNothingFound(outcome, job, now);
  }
}

// What the planner gave to one of the workers that it was asked with.
PlanStage Planning::StageOf(const planner::StageAssignment& part, const Job& job) const {
  const LayerSpan layers = SpanOf(part, job.form);
  PlanStage stage;
  stage.worker = job.workers[static_cast<size_t>(part.worker)];
  stage.first = layers.first;
  stage.end = layers.end;
  stage.predicted_us = part.exec_us;
  stage.form = job.form;
  const Worker* worker = roster_.Find(stage.worker);
  stage.is_measured = worker != nullptr && worker->SpeedKnown();
  return stage;
}

// Worker i of the planner's is that of stage i.
std::vector<planner::StageAssignment> Planning::AssignmentsOf(const SwarmPlan& plan) {
  std::vector<planner::StageAssignment> stages;
  for (const PlanStage& stage : plan.stages) {
    planner::StageAssignment assignment;
    assignment.worker = static_cast<int>(stages.size());
    assignment.first_layer = static_cast<int>(stage.first);
    assignment.end_layer = static_cast<int>(stage.end);
    stages.push_back(assignment);
  }
  return stages;
}

std::optional<planner::Plan> Planning::Evaluate(const SwarmPlan& plan, Instant now) const {
  std::vector<planner::WorkerMetrics> metrics;
  for (const PlanStage& stage : plan.stages)
    metrics.push_back(MetricsOf(*roster_.Find(stage.worker), plan.form(), now));
  return planner::EvaluatePlan(costs_.layers(plan.form()), metrics, Context(now),
                               AssignmentsOf(plan));
}

void Planning::Consider(const planner::Plan& plan, const Job& job, Instant now) {
  SwarmPlan next;
  next.predicted_us = plan.exec_us;
  for (const planner::StageAssignment& stage : plan.stages)
    next.stages.push_back(StageOf(stage, job));
  // The search took a while: what was learnt since may have made its plan impossible.
  if (!Evaluate(next, now)) return Want(now);
  const planner::PlanContext context = Context(now);
  bool accepted = true;
  if (IsChosen(&next)) {
    accepted = !IsChosen(lifecycle_.active()) && !IsChosen(lifecycle_.staged());
  } else if (wants_steady_ && !whole_on_) {
    accepted = !IsSteady(lifecycle_.active()) && !IsSteady(lifecycle_.staged());
  } else if (const SwarmPlan* staged = lifecycle_.staged()) {
    // Both still have to be loaded, so both count with what they need for that. What is under way
    // is given up for something clearly better only.
    const auto current = Evaluate(*staged, now);
    accepted = !current || plan.total_cost < kBetterThanStaged * current->total_cost;
  } else if (lifecycle_.serves()) {
    const auto current = Evaluate(*lifecycle_.active(), now);
    const planner::MovePrice price = PriceOf(plan, next);
    // What evened it out for many is not undone for one of them.
    is_evened_ = is_evened_ && current && live_requests_ > 1;
    accepted = (!is_evened_ || HasOthers(next)) &&
               planner::AcceptMove(
                   plan, current ? current->total_cost : std::numeric_limits<double>::infinity(),
                   price, context);
    if (accepted) is_evened_ = false;
    // A conversation that is alone would wait for the move, and gain nothing.
    if (!accepted && current && live_requests_ != 1)
      accepted = !is_evened_ && planner::AcceptEvenMove(plan, *current, price, context);
    if (!accepted && current) {
      if (auto even = MoreEven(now)) {
        next = std::move(*even);
        accepted = is_evened_ = true;
      }
    }
  }
  if (!accepted || (lifecycle_.serves() && TakesLastHolders(next))) return;
  NoteWaits(next, now);
  changes_.Note({.standbys = true});
  lifecycle_.Stage(std::move(next), now);
}

// A hub that moves to a device takes the place of the experts there. The plan that serves goes on
// asking for these until the other one has loaded, so others have to hold them, too.
bool Planning::TakesLastHolders(const SwarmPlan& next) const {
  return std::ranges::any_of(next.stages, [this](const PlanStage& stage) {
    const Worker& worker = *roster_.Find(stage.worker);
    if (lifecycle_.FitsBesidePlans(worker, stage.layers())) return false;
    const std::vector<bool>& held = worker.holding->held;
    for (size_t i = 0; i < held.size(); ++i) {
      const bool is_last =
          held[i] && std::ranges::none_of(roster_, [&](const auto& entry) {
            const auto& [id, other] = entry;
            return id != worker.id && i < other.holding->held.size() && other.holding->held[i];
          });
      if (is_last) return true;
    }
    return false;
  });
}

// What changing over to the plan costs: its bytes, and what live sessions compute once more. Layers
// that nobody else runs on their new worker, behind a cut of the active plan, are filled beside it;
// where a worker's own range changes, streams wait for the rows.
planner::MovePrice Planning::PriceOf(const planner::Plan& plan, const SwarmPlan& next) const {
  const SwarmPlan& active = *lifecycle_.active();
  planner::MovePrice price;
  for (size_t i = 0; i < next.stages.size(); ++i) {
    const PlanStage& stage = next.stages[i];
    price.bytes += plan.stages[i].download_bytes;
    const PlanStage* before = active.StageOf(stage.worker);
    if (before != nullptr && before->layers() == stage.layers()) continue;
    price.rows = live_rows_;
    const bool cut_is_known =
        stage.first == 0 ||
        std::any_of(active.stages.begin(), active.stages.end(),
                    [&](const PlanStage& each) { return each.first == stage.first; });
    if (before != nullptr || !cut_is_known)
      price.pause_us = static_cast<double>(live_rows_) * plan.row_us;
  }
  return price;
}

}  // namespace weft::swarm
