#include "swarm/plan/planning.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "planner/planner.h"

namespace weft::swarm {
namespace {

// A plan that is being loaded is replaced by one that takes so much less time at most.
constexpr double kBetterThanStaged = 0.8;
// Steps that make more of a median than a measurement.
constexpr size_t kServedSteps = 8;
constexpr double kLeastServedShare = 0.25;
// Of how long hubs wait for experts against what was expected.
constexpr double kLeastWaitShare = 0.25, kMostWaitShare = 4;
// A device that makes the swarm half as fast again is used however wrong predictions are.
constexpr double kLeastTau = 0.7;

LayerSpan SpanOf(const planner::StageAssignment& stage, LayerForm form) {
  return {static_cast<uint32_t>(stage.first_layer), static_cast<uint32_t>(stage.end_layer), form};
}

std::optional<double> MedianOf(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool HasServed(const Worker& worker) {
  return worker.times.speed.count() >= kServedSteps;
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
         (form == LayerForm::kWhole || worker.offer.can_be_hub);
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

// While a plan serves, whoever comes stands by first: one that goes again before it has done
// anything takes nobody's answer with it.
bool Planning::IsNewcomer(const Worker& worker, Instant now) const {
  return worker.steps->tokens_computed == 0 &&
         now < worker.connected_at + options_.timeouts.newcomer;
}

// One that cannot be timed, because it holds a single layer, may stand by: better than nobody.
bool Planning::MayStandBy(const Worker& worker, LayerForm form, Instant now) const {
  return (worker.measure->phase == MeasureJob::Phase::kNone || worker.measure->again) &&
         (IsEligible(worker, form, now) ||
          (MayCompute(worker, form, now) && (worker.SpeedKnown() || worker.measure->tried) &&
           checks_.MayServe(worker)));
}

planner::PlanContext Planning::Context(Instant now) const {
  planner::PlanContext context;
  context.constants.delta_us = kServerStepUs;
  // What is better by less than predictions are wrong is no better.
  if (const auto error = running_error_)
    context.constants.tau = std::clamp(1 - *error, kLeastTau, context.constants.tau);
  context.up = lifecycle_.serves();
  context.since_redistribution = now - lifecycle_.last_swap();
  // As if one loss were to come in any case, and in the first five minutes as if they were over.
  const auto seen_us = static_cast<double>((now - first_seen_).us);
  context.expected_stable_us = std::max(seen_us, 300e6) / static_cast<double>(losses_ + 1);
  if (const SwarmPlan* active = lifecycle_.active()) context.token_us = active->predicted_us;
  if (const auto repair_us = repair_us_.Median()) context.repair_us = *repair_us;
  context.repair_bytes_per_us = RepairRate();
  return context;
}

planner::WorkerMetrics Planning::MetricsOf(const Worker& worker, LayerForm form,
                                           Instant now) const {
  planner::WorkerMetrics metrics = costs_.Metrics(worker, form);
  metrics.departures_per_s = lifetimes_.LossesPerS(worker.probation_key, now);
  if (!HasServed(worker) && worker.times.repeated_speed) metrics.compute_speed *= ServedShare();
  if (IsHub(form)) metrics.exchange_us = ExchangeUs(worker, now) * WaitShare();
  return metrics;
}

std::vector<ExpertLender> Planning::Lenders(const std::vector<PlanStage>& stages, Instant now,
                                            std::vector<WorkerId>& ids) const {
  std::vector<ExpertLender> lenders;
  for (const auto& [id, worker] : roster_) {
    if (!worker.ready || !CanHoldExperts(worker.offer, options_.model) || worker.leaves_at ||
        worker.check->state == CheckState::kFailed || probation_.IsAside(worker.probation_key, now))
      continue;
    uint64_t taken = costs_.layers()[0].scratch_bytes;
    for (const PlanStage& stage : stages)
      if (stage.worker == id)
        taken += costs_.MemoryBytes(worker.memory->weight_factor, stage.layers());
    ids.push_back(id);
    lenders.push_back(
        {costs_.NumbersOf(worker), worker.limit->bytes - std::min(taken, worker.limit->bytes)});
  }
  return lenders;
}

// As the hub of all layers: what it has left for experts costs no trip.
double Planning::ExchangeUs(const Worker& hub, Instant now) const {
  PlanStage whole;
  whole.worker = hub.id;
  whole.first = 0;
  whole.end = costs_.layer_count();
  whole.form = LayerForm::kHub;
  std::vector<WorkerId> ids;
  const std::vector<ExpertLender> lenders = Lenders({whole}, now, ids);
  const auto own = std::find(ids.begin(), ids.end(), hub.id);
  return swarm::ExchangeUs(options_.model, costs_.NumbersOf(hub), lenders,
                           own == ids.end() ? -1 : static_cast<int>(own - ids.begin()));
}

// How long hubs waited, as a share of what was expected of them: the median of those that served, 1
// before. It counts for every hub: with the measured wait of one against what is expected of the
// others, answers would wander to a hub that looks faster until it has served, too.
double Planning::WaitShare() const {
  std::vector<double> shares;
  for (const auto& [id, worker] : roster_)
    if (worker.times.wait_share.count() >= kServedSteps)
      shares.push_back(*worker.times.wait_share.Median());
  return std::clamp(MedianOf(std::move(shares)).value_or(1), kLeastWaitShare, kMostWaitShare);
}

void Planning::NoteWaits(const SwarmPlan& plan, Instant now) {
  if (!plan.is_hub()) return;
  for (const PlanStage& stage : plan.stages) {
    Worker& hub = *roster_.Find(stage.worker);
    const double model_us = ExchangeUs(hub, now);
    hub.exchange.edit() = {model_us, model_us * WaitShare()};
  }
}

// How fast devices were in answers, as a share of what their measurements had said: the median of
// those that both are known of, 1 before. Without it every newcomer would look faster than whoever
// answers, and answers would wander from one to the next.
double Planning::ServedShare() const {
  std::vector<double> shares;
  for (const auto& [id, worker] : roster_)
    if (HasServed(worker) && worker.times.repeated_speed)
      shares.push_back(*worker.times.speed.Median() / *worker.times.repeated_speed);
  return std::clamp(MedianOf(std::move(shares)).value_or(1), kLeastServedShare, 1.0);
}

// How fast whoever takes over loads the weights of who went: the median of the devices' rates. 0
// where somebody stands by with every stage, so that nothing has to be loaded, and where no load
// was measured.
double Planning::RepairRate() const {
  if (const SwarmPlan* active = lifecycle_.active()) {
    const auto stands_by = [&](const PlanStage& stage) {
      return std::any_of(roster_.begin(), roster_.end(), [&](const auto& each) {
        const auto& [id, worker] = each;
        return id != stage.worker && std::any_of(worker.bindings->begin(), worker.bindings->end(),
                                                 [&](const Binding& binding) {
                                                   return binding.loaded &&
                                                          binding.layers == stage.layers();
                                                 });
      });
    };
    if (std::all_of(active->stages.begin(), active->stages.end(), stands_by)) return 0;
  }
  std::vector<double> rates;
  for (const auto& [id, worker] : roster_)
    if (const auto rate = worker.times.load_rate.Median()) rates.push_back(*rate);
  return MedianOf(std::move(rates)).value_or(0);
}

void Planning::SetSteady(bool wanted, Instant now) {
  if (wants_steady_ == wanted) return;
  wants_steady_ = wanted;
  steady_more_ = 0;
  steady_.clear();
  job_.reset();
  if (wanted && lifecycle_.staged()) lifecycle_.DropStaged(now);
  changes_.Note({.standbys = true});
  Want(now);
}

bool Planning::CanBeSteady(WorkerId without, Instant now) const {
  return std::any_of(roster_.begin(), roster_.end(), [&](const auto& each) {
    return each.first != without && MayCompute(each.second, LayerForm::kWhole, now);
  });
}

bool Planning::IsSteady(const SwarmPlan* plan) const {
  if (IsChosen(plan)) return true;
  return plan != nullptr &&
         std::all_of(plan->stages.begin(), plan->stages.end(), [this](const PlanStage& stage) {
           return std::find(steady_.begin(), steady_.end(), stage.worker) != steady_.end();
         });
}

std::vector<WorkerId> Planning::Steadiest(std::vector<WorkerId> workers, Instant now) const {
  const auto stay_s = [&](WorkerId id) {
    return lifetimes_.MeanStayS(roster_.Find(id)->probation_key, now);
  };
  std::stable_sort(workers.begin(), workers.end(),
                   [&](WorkerId one, WorkerId other) { return stay_s(one) > stay_s(other); });
  const LayerSpan all = {0, costs_.layer_count()};
  double missing = 1;  // of the model
  size_t count = 0;
  for (; count < workers.size() && missing > 0; ++count) {
    const Worker& worker = *roster_.Find(workers[count]);
    missing -= static_cast<double>(worker.limit->bytes) /
               static_cast<double>(costs_.MemoryBytes(worker.memory->weight_factor, all));
  }
  workers.resize(std::min(workers.size(), count + steady_more_));
  std::sort(workers.begin(), workers.end());
  return workers;
}

bool Planning::IsBlocked() const {
  return job_.has_value();
}

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
  job.compares = options_.plan_kind == PlanKind::kAuto && !whole_on_ && HasExperts(options_.model);
  for (const auto& [id, worker] : roster_) {
    if (!whole_on_ && IsNewcomer(worker, now) && MayCompute(worker, job.form, now))
      LookAgainAt(worker.connected_at + options_.timeouts.newcomer);
    if (whole_on_ ? id == *whole_on_ : IsEligible(worker, job.form, now)) job.workers.push_back(id);
  }
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
  for (const auto& [id, worker] : roster_) {
    if (!IsEligible(worker, job.form, now)) continue;
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
    const bool layers_win =
        other->outcome.plan && (!fits || other->outcome.plan->exec_us <= outcome.plan->exec_us);
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

// Who stands by with which stage of the active plan. Each worker that runs no part of it holds as
// many stages as fit its offer, those first that fewest others stand by with and whose loss would
// cost most for their bytes: loading takes as long as the bytes, and replaying as the reads, so the
// cost for a byte is that of compute, C / W. Then workers of the plan, in what their own stage
// leaves free. A spare that is smaller than every stage holds a part of one.
void Planning::ChooseStandbys(Instant now) {
  changes_.TakeStandbys();
  const SwarmPlan& active = *lifecycle_.active();
  std::vector<Worker*> holders;
  for (const bool spare : {true, false})
    for (auto& [id, worker] : roster_)
      if (MayStandBy(worker, active.form(), now) && lifecycle_.IsUsed(id) != spare)
        holders.push_back(&worker);
  std::vector<uint32_t> copies(active.stages.size(), 0), layer_copies(costs_.layer_count(), 0);
  for (Worker* worker : holders) {
    const bool is_small =
        !lifecycle_.IsUsed(worker->id) &&
        std::none_of(active.stages.begin(), active.stages.end(), [&](const PlanStage& stage) {
          return lifecycle_.FitsBesidePlans(*worker, stage.layers());
        });
    lifecycle_.KeepStandbys(*worker, [&](LayerSpan layers) {
      return std::any_of(active.stages.begin(), active.stages.end(), [&](const PlanStage& stage) {
        if (is_small)
          return stage.form == layers.form && stage.first <= layers.first &&
                 layers.end <= stage.end;
        return stage.layers() == layers && stage.worker != worker->id;
      });
    });
    std::vector<size_t> order;
    for (size_t i = 0; i < active.stages.size(); ++i)
      if (active.stages[i].worker != worker->id) order.push_back(i);
    const auto worth = [&](size_t i) {
      const PlanStage& stage = active.stages[i];
      return costs_.Cost(stage.layers()) /
             static_cast<double>(costs_.MemoryBytes(1, stage.layers()) + 1);
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return copies[a] != copies[b] ? copies[a] < copies[b] : worth(a) > worth(b);
    });
    if (is_small) {
      StandByWithPart(*worker, order, layer_copies, now);
      continue;
    }
    for (const size_t i : order)
      if (lifecycle_.StandBy(*worker, active.stages[i].layers(), now)) ++copies[i];
  }
}

// Of the first of these stages of which it can hold anything: as many layers as fit, from the first
// one that fewest spares hold already. Three spares that hold 4 layers each so stand by with 4, 4
// and 2 of a stage of 10, and fill its place together (Lifecycle::FillFromStandbys). What is kept
// together is held whole or not at all: all its layers have as many copies, so that the first of
// the fewest begins it.
void Planning::StandByWithPart(Worker& worker, const std::vector<size_t>& stages,
                               std::vector<uint32_t>& layer_copies, Instant now) {
  const auto hold = [&](LayerSpan layers) {
    if (!lifecycle_.StandBy(worker, layers, now)) return false;
    for (uint32_t layer = layers.first; layer < layers.end; ++layer) ++layer_copies[layer];
    return true;
  };
  for (const Binding& binding : *worker.bindings)
    if (binding.standby && hold(binding.layers)) return;
  const auto least = [&](size_t i) {
    const PlanStage& stage = lifecycle_.active()->stages[i];
    return std::min_element(layer_copies.begin() + stage.first, layer_copies.begin() + stage.end);
  };
  std::vector<size_t> order = stages;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return *least(a) < *least(b); });
  for (const size_t i : order) {
    const auto first = static_cast<uint32_t>(least(i) - layer_copies.begin());
    for (uint32_t end = lifecycle_.active()->stages[i].end; end > first; --end)
      if (costs_.MayCut(end) && hold({first, end, lifecycle_.active()->form()})) return;
  }
}

bool Planning::FitsWhole(const Worker& worker, Instant now) const {
  return worker.ready && worker.CanGenerate() && options_.model.lowered &&
         !worker.loading->paused_until && !probation_.IsAside(worker.probation_key, now) &&
         checks_.MayCompute(worker) &&
         costs_.MemoryBytes(worker.memory->weight_factor, {0, costs_.layer_count()}) <=
             worker.limit->bytes;
}

bool Planning::IsChosen(const SwarmPlan* plan) const {
  return plan && whole_on_ && plan->stages.size() == 1 && plan->stages[0].worker == *whole_on_;
}

void Planning::RunWholeOn(Worker& worker, bool wanted, Instant now) {
  worker.told_whole.edit().reset();  // it gets an answer in any case
  if (wanted ? !FitsWhole(worker, now) : whole_on_ != worker.id) return;
  if (wanted)
    whole_on_ = worker.id;
  else
    whole_on_.reset();
  job_.reset();  // what is being looked for is not wanted any more
  changes_.Note({.standbys = true});
  Want(now);
  changes_.Note({.view = true});
}

void Planning::TellWhole(Instant now) {
  for (auto& [id, worker] : roster_) {
    if (!worker.ready || !worker.CanGenerate()) continue;
    if (*worker.told_whole != WholeState(worker, now)) TellWhole(worker, "", now);
  }
}

void Planning::TellWhole(Worker& worker, const std::string& message, Instant now) {
  worker.told_whole.edit() = WholeState(worker, now);
  SendData data{worker.id, {}};
  data.pieces.emplace_back(wire::EncodeGeneration(wire::WholeModel{**worker.told_whole, message}));
  outbox_.Add(std::move(data));
}

wire::WholeModel::State Planning::WholeState(const Worker& worker, Instant now) const {
  using State = wire::WholeModel::State;
  if (whole_on_ == worker.id) return State::kHere;
  if (!FitsWhole(worker, now)) return State::kTooLarge;
  return *worker.whole_asked ? State::kAsked : State::kFits;
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
    metrics.push_back(MetricsOf(*roster_.Find(stage.worker), plan.form(), now));
  }
  return planner::EvaluatePlan(costs_.layers(plan.form()), metrics, Context(now), stages);
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
    accepted = planner::AcceptMove(
        plan, current ? current->total_cost : std::numeric_limits<double>::infinity(),
        PriceOf(plan, next), context);
  }
  if (!accepted) return;
  NoteWaits(next, now);
  changes_.Note({.standbys = true});
  lifecycle_.Stage(std::move(next), now);
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
