#include "swarm/view/swarm_view.h"

#include <algorithm>

namespace weft::swarm {
namespace {

SwarmState StateOf(const Lifecycle& lifecycle) {
  if (lifecycle.serves()) return SwarmState::kUp;
  if (lifecycle.active()) return SwarmState::kRepairing;
  return lifecycle.staged() ? SwarmState::kPreparing : SwarmState::kDown;
}

}  // namespace

WorkerSnapshot SwarmView::PictureOf(WorkerId id, const Worker& worker, Instant now) const {
  const SwarmPlan* active = parts_.lifecycle.active();
  const SwarmPlan* staged = parts_.lifecycle.staged();
  WorkerSnapshot out;
  out.id = id;
  out.name = worker.offer.name;
  out.kind = worker.offer.kind;
  out.engine = worker.offer.engine;
  out.device = worker.offer.device;
  out.memory_bytes = worker.offer.memory_bytes;
  out.problem = worker.record->problem;
  out.check = CheckName(worker.check->state);
  const PlanStage* stage = active ? active->StageOf(id) : nullptr;
  const bool preparing = staged && staged->StageOf(id);
  out.state = !worker.ready                                       ? WorkerState::kConnecting
              : stage || *worker.serves_beside                    ? WorkerState::kActive
              : preparing                                         ? WorkerState::kPreparing
              : worker.measure->phase != MeasureJob::Phase::kNone ? WorkerState::kMeasuring
              : !worker.bindings->empty()                         ? WorkerState::kStandby
                                                                  : WorkerState::kIdle;
  AddForOwner(worker, now, out);
  if (!worker.ready) return out;
  if (stage) {
    out.first_layer = static_cast<int>(stage->first);
    out.end_layer = static_cast<int>(stage->end);
  }
  out.used_bytes =
      std::max(parts_.costs.MemoryBytes(worker.memory->weight_factor, worker.layers->loaded,
                                        worker.layers->loaded_hubs),
               worker.layers->loaded.empty() ? 0 : worker.memory->reported_bytes);
  for (uint32_t layer = 0; layer < parts_.costs.layer_count(); ++layer)
    if (worker.layers->cached.Has(layer)) out.cached_layers.push_back(layer);
  // Of a download that was asked for and goes on: what a worker said last may be old.
  if (!worker.layers->requested.empty() || worker.IsLoading() ||
      worker.measure->phase != MeasureJob::Phase::kNone) {
    out.downloaded_bytes = worker.layers->downloaded_bytes;
    out.download_total_bytes = worker.layers->download_total_bytes;
  }
  out.latency_ms = worker.times.latency_us.Median().value_or(0) * 1e-3;
  const LineRates rates = worker.Rates();
  out.download_bytes_per_s = rates.down * 1e6;
  out.upload_bytes_per_s = rates.up * 1e6;
  out.overhead_us = parts_.costs.OverheadUs(worker);
  out.handover_us = parts_.costs.HandoverUs(worker);
  out.batch_gain = worker.times.batch_gain.Median().value_or(0);
  out.load_bytes_per_us = worker.times.load_rate.Median().value_or(0);
  out.expected_stay_s = 1 / parts_.planning.lifetimes().LossesPerS(worker.probation_key, now);
  out.us_per_token = worker.times.compute_us.Median().value_or(0);
  out.speed_bytes_per_us = worker.times.BytesPerUs().value_or(0);
  out.used_bytes += worker.holding->memory_bytes;
  const auto count = [](const std::vector<bool>& set) {
    return static_cast<uint32_t>(std::count(set.begin(), set.end(), true));
  };
  out.experts_told = count(worker.holding->told);
  out.experts_held = count(worker.holding->held);
  out.expert_messages = worker.experts->messages_sent + worker.experts->messages_received;
  out.holder = PictureOfHolder(*worker.reports);
  out.computing = !worker.steps->idle();
  out.tokens_computed = worker.steps->tokens_computed;
  out.steps = worker.steps->sums;
  out.step_times = worker.steps->times;
  return out;
}

void SwarmView::AddForOwner(const Worker& worker, Instant now, WorkerSnapshot& out) const {
  out.address = worker.address;
  out.device_id = worker.probation_key;
  out.connected_s = (now - worker.connected_at).seconds();
  out.silent_s = (now - worker.last_heard).seconds();
  out.is_leaving = worker.leaves_at.has_value();
  out.aside = AsideOf(worker, out.state, now);
}

// Of several hubs the one for which the holder is slowest.
std::optional<HolderSnapshot> SwarmView::PictureOfHolder(const WorkerReports& holder) const {
  if (holder.counts.calls == 0) return std::nullopt;
  HolderSnapshot out{holder.counts, {}};
  for (const auto& [id, times] : holder.times) {
    const Worker* hub = parts_.roster.Find(id);
    if (hub == nullptr || !hub->experts->is_hub) continue;
    out.times.p50_ms = std::max(out.times.p50_ms, times.p50_ms);
    out.times.slowest_ms = std::max(out.times.slowest_ms, times.slowest_ms);
    out.times.queue_ms = std::max(out.times.queue_ms, times.queue_ms);
  }
  return out;
}

StageSnapshot SwarmView::PictureOf(const PlanStage& stage) const {
  StageSnapshot out;
  out.worker = stage.worker;
  out.first_layer = stage.first;
  out.end_layer = stage.end;
  out.predicted_us = stage.predicted_us;  // of a hole as it was planned, else as of now
  out.binding = stage.binding;
  const Worker* worker = parts_.roster.Find(stage.worker);
  if (worker != nullptr) {
    out.predicted_us = parts_.costs.TokenUs(*worker, stage.layers());
    if (const auto stage_us = worker->times.stage_us.Median())
      out.measured_us = *stage_us + kServerStepUs;
  }
  if (stage.IsHole() && parts_.lifecycle.staged())
    for (const PlanStage& filling : parts_.lifecycle.staged()->stages)
      if (filling.layers().Overlaps(stage.layers())) out.filled_by.push_back(filling.worker);
  if (!stage.IsHole()) out.loss_us = LossUs(stage);
  return out;
}

// The least that anybody else needs: rows to compute where the layers are loaded, layers to fetch
// and to load, too, where they are not but would fit.
std::optional<double> SwarmView::LossUs(const PlanStage& stage) const {
  const uint64_t live_rows = parts_.sessions.CountLiveRows();
  std::optional<double> least;
  for (const auto& [id, worker] : parts_.roster) {
    if (id == stage.worker || !worker.ready || worker.leaves_at) continue;
    const double row_us =
        parts_.costs.StepUs(worker, stage.layers(), parts_.options.prefill_chunk_rows) /
        parts_.options.prefill_chunk_rows;
    double us = 0;
    const auto standing_by = std::find_if(
        worker.bindings->begin(), worker.bindings->end(),
        [&](const Binding& binding) { return binding.loaded && binding.layers == stage.layers(); });
    if (standing_by != worker.bindings->end()) {
      const BoundStage bound{standing_by->id, id, standing_by->stage, standing_by->layers};
      us = static_cast<double>(parts_.pipelines.Lag(bound)) * row_us;
    } else {
      if (IsHub(stage.form) && !CanBeHub(worker.offer, parts_.options)) continue;
      const bool fits = parts_.lifecycle.FitsBeside(
          worker, stage.layers(),
          [this](const Binding& binding) { return parts_.lifecycle.active()->Uses(binding.id); });
      if (!fits) continue;
      us =
          parts_.lifecycle.LoadUs(worker, stage.layers()) + static_cast<double>(live_rows) * row_us;
    }
    if (!least || us < *least) least = us;
  }
  return least;
}

void SwarmView::AddPlan(Snapshot& picture) const {
  const SwarmPlan* active = parts_.lifecycle.active();
  picture.covered_layers.assign(parts_.costs.layer_count(), active || parts_.lifecycle.staged());
  for (uint32_t layer = 0; layer < parts_.planning.covered_end(); ++layer)
    picture.covered_layers[layer] = true;
  if (active == nullptr) return;
  picture.plan_version = parts_.lifecycle.version();
  bool all_measured = true;
  for (const PlanStage& stage : active->stages) {
    picture.stages.push_back(PictureOf(stage));
    picture.predicted_us_per_token += picture.stages.back().predicted_us;
    const double measured_us = picture.stages.back().measured_us;
    picture.measured_us_per_token += measured_us;
    all_measured = all_measured && measured_us > 0;
  }
  if (!all_measured) picture.measured_us_per_token = 0;
}

void SwarmView::AddSidePlans(Snapshot& picture) const {
  for (const SidePlan& each : parts_.side_plans.plans()) {
    SidePlanSnapshot& out = picture.side_plans.emplace_back();
    for (const PlanStage& stage : each.plan.stages) out.stages.push_back(PictureOf(stage));
    out.active_requests = parts_.sessions.active_count(each.id);
  }
}

void SwarmView::AddStandbys(Snapshot& picture) const {
  const SwarmPlan* active = parts_.lifecycle.active();
  const SwarmPlan* staged = parts_.lifecycle.staged();
  for (const auto& [id, worker] : parts_.roster)
    for (const Binding& binding : *worker.bindings) {
      if ((active && active->Uses(binding.id)) || (staged && staged->Uses(binding.id))) continue;
      const BoundStage bound{binding.id, id, binding.stage, binding.layers};
      picture.standbys.push_back({id, binding.layers.first, binding.layers.end, binding.loaded,
                                  parts_.pipelines.Lag(bound)});
    }
}

void SwarmView::AddCounts(Snapshot& picture, Instant now) const {
  picture.experts_needed = parts_.experts.coverage().needed;
  picture.experts_held = parts_.experts.coverage().held;
  picture.in_neuron_groups = parts_.options.model.is_in_groups();
  picture.initial_error = parts_.pipelines.errors().initial.value();
  picture.running_error = parts_.pipelines.errors().running.value();
  picture.history_bytes = parts_.sessions.history_bytes();
  picture.history_limit_bytes = parts_.options.history_bytes;
  picture.active_requests = parts_.sessions.active_count();
  picture.kept_prefixes = parts_.sessions.kept_count();
  picture.computed_positions = parts_.sessions.computed_positions();
  const RequestCounts& counts = parts_.requests.counts();
  picture.queued_requests = parts_.requests.waiting_count();
  picture.completed_requests = counts.completed;
  picture.failed_requests = counts.failed;
  picture.lost_groups = counts.lost_groups;
  picture.generated_tokens = counts.generated_tokens;
  picture.forced_tokens = counts.forced_tokens;
  picture.side_tokens = counts.side_tokens;
  picture.prompt_tokens = counts.prompt_tokens;
  picture.cached_prompt_tokens = counts.cached_prompt_tokens;
  picture.queued_times = counts.queued_times;
  picture.boundary_bytes_sent = parts_.pipelines.traffic().bytes_sent;
  picture.boundary_bytes_received = parts_.pipelines.traffic().bytes_received;
  picture.tokens_per_second = parts_.requests.TokensPerSecond(now);
}

Snapshot SwarmView::Take(const ViewedNotes& notes, Instant now) const {
  Snapshot picture;
  picture.state = StateOf(parts_.lifecycle);
  for (const auto& [id, worker] : parts_.roster)
    picture.workers.push_back(PictureOf(id, worker, now));
  AddPlan(picture);
  AddSidePlans(picture);
  AddStandbys(picture);
  AddCounts(picture, now);
  picture.consents = parts_.wishes.Consents(now);
  picture.losses = PictureOfLosses();
  Describe(notes, picture);
  return picture;
}

}  // namespace weft::swarm
