// The numbers that the planner is given: of devices, of hubs and of what has happened so far.
#include <algorithm>

#include "planner/balance.h"
#include "planner/planner.h"
#include "swarm/plan/planning.h"

namespace weft::swarm {
namespace {

// Steps that make more of a median than a measurement.
constexpr size_t kServedSteps = 8;
constexpr double kLeastServedShare = 0.25;
// Of how long hubs wait for experts against what was expected.
constexpr double kLeastWaitShare = 0.25, kMostWaitShare = 4;
// A device that makes the swarm half as fast again is used however wrong predictions are.
constexpr double kLeastTau = 0.7;

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
  if (options_.session_count > 1) context.balance = planner::kServedBalance;
  context.conversations = std::max(live_requests_, 1u);
  return context;
}

planner::WorkerMetrics Planning::MetricsOf(const Worker& worker, LayerForm form,
                                           Instant now) const {
  planner::WorkerMetrics metrics = costs_.Metrics(worker, form);
  metrics.departures_per_s = lifetimes_.LossesPerS(worker.probation_key, now);
  if (!HasServed(worker) && worker.times.repeated_speed) {
    const double share = ServedShare();
    metrics.compute_speed *= share;
    metrics.session_overhead_us /= share;
  }
  if (IsHub(form)) metrics.exchange_us = ExchangeUs(worker, now) * WaitShare();
  return metrics;
}

std::vector<ExpertLender> Planning::Lenders(const std::vector<PlanStage>& stages, Instant now,
                                            std::vector<WorkerId>& ids) const {
  std::vector<ExpertLender> lenders;
  for (const auto& [id, worker] : roster_) {
    if (!worker.ready || !CanHoldExperts(worker.offer, options_) || worker.leaves_at ||
        worker.check->state == CheckState::kFailed || probation_.IsAside(worker.probation_key, now))
      continue;
    // A hub that the server serves holds nothing for others.
    const auto is_hub = [id = id](const PlanStage& stage) {
      return stage.worker == id && IsHub(stage.form);
    };
    if (worker.offer.rows_to_server && std::ranges::any_of(stages, is_hub)) continue;
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
  return swarm::ExchangeUs(options_, costs_.NumbersOf(hub), lenders,
                           own == ids.end() ? -1 : static_cast<int>(own - ids.begin()));
}

// How long hubs waited, as a share of what is expected of them: the median of those that served, 1
// before. It counts for every hub: with the measured wait of one against what is expected of the
// others, answers would wander to a hub that looks faster until it has served, too.
double Planning::WaitShare() const {
  std::vector<double> shares;
  for (const auto& [id, worker] : roster_)
    if (worker.times.wait_share) shares.push_back(*worker.times.wait_share);
  return std::clamp(MedianOf(std::move(shares)).value_or(1), kLeastWaitShare, kMostWaitShare);
}

// While it serves, this is looked at once a second: the first steps tell how fast devices are, and
// waits against what was expected before that would say nothing.
void Planning::NoteWaits(const SwarmPlan& plan, Instant now) {
  if (!plan.is_hub()) return;
  waits_noted_ = now;
  for (const PlanStage& stage : plan.stages) {
    Worker& hub = *roster_.Find(stage.worker);
    const double model_us = ExchangeUs(hub, now);
    if (hub.times.waits_us.count() >= kServedSteps && model_us > 0)
      hub.times.wait_share = *hub.times.waits_us.Median() / model_us;
    hub.exchange.edit() = {model_us * WaitShare()};
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

}  // namespace weft::swarm
