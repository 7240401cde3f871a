// The picture of the swarm, from the parts of the core.
#include "swarm/snapshot.h"

#include <algorithm>

#include "swarm/core/state.h"

namespace weft::swarm {
namespace {

SwarmState StateOf(const Lifecycle& lifecycle) {
  if (lifecycle.serves()) return SwarmState::kUp;
  if (lifecycle.active()) return SwarmState::kRepairing;
  return lifecycle.staged() ? SwarmState::kPreparing : SwarmState::kDown;
}

std::string Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? "" : " (" + std::to_string(part * 100 / whole) + "%)";
}

std::string Devices(size_t count) {
  return std::to_string(count) + (count == 1 ? " device" : " devices");
}

}  // namespace

WorkerSnapshot State::PictureOf(WorkerId id, const Worker& worker) const {
  const SwarmPlan* active = lifecycle.active();
  const SwarmPlan* staged = lifecycle.staged();
  WorkerSnapshot out;
  out.id = id;
  out.name = worker.offer.name;
  out.kind = worker.offer.kind;
  out.engine = worker.offer.engine;
  out.device = worker.offer.device;
  out.memory_bytes = worker.offer.memory_bytes;
  out.problem = worker.record.problem;
  out.check = CheckName(worker.check.state);
  const PlanStage* stage = active ? active->StageOf(id) : nullptr;
  const bool preparing = staged && staged->StageOf(id);
  out.state = !worker.ready                                      ? WorkerState::kConnecting
              : stage                                            ? WorkerState::kActive
              : preparing                                        ? WorkerState::kPreparing
              : worker.measure.phase != MeasureJob::Phase::kNone ? WorkerState::kMeasuring
              : !worker.bindings.empty()                         ? WorkerState::kStandby
                                                                 : WorkerState::kIdle;
  if (!worker.ready) return out;
  if (stage) {
    out.first_layer = static_cast<int>(stage->first);
    out.end_layer = static_cast<int>(stage->end);
  }
  out.used_bytes = std::max(costs.MemoryBytes(worker.memory.weight_factor, worker.layers.loaded,
                                              worker.layers.loaded_hubs),
                            worker.layers.loaded.empty() ? 0 : worker.memory.reported_bytes);
  for (uint32_t layer = 0; layer < costs.layer_count(); ++layer)
    if (worker.layers.cached.Has(layer)) out.cached_layers.push_back(layer);
  // Of a download that was asked for and goes on: what a worker said last may be old.
  if (!worker.layers.requested.empty() || worker.IsLoading() ||
      worker.measure.phase != MeasureJob::Phase::kNone) {
    out.downloaded_bytes = worker.layers.downloaded_bytes;
    out.download_total_bytes = worker.layers.download_total_bytes;
  }
  out.latency_ms = worker.times.latency_us.Median().value_or(0) * 1e-3;
  const LineRates rates = worker.Rates();
  out.download_bytes_per_s = rates.down * 1e6;
  out.upload_bytes_per_s = rates.up * 1e6;
  out.overhead_us = costs.OverheadUs(worker);
  out.handover_us = costs.HandoverUs(worker);
  out.batch_gain = worker.times.batch_gain.Median().value_or(0);
  out.load_bytes_per_us = worker.times.load_rate.Median().value_or(0);
  out.expected_stay_s = 1 / planning.lifetimes().LossesPerS(worker.probation_key, now);
  out.us_per_token = worker.times.compute_us.Median().value_or(0);
  out.speed_bytes_per_us = worker.times.speed.Median().value_or(0);
  out.used_bytes += worker.experts.memory_bytes;
  const auto count = [](const std::vector<bool>& set) {
    return static_cast<uint32_t>(std::count(set.begin(), set.end(), true));
  };
  out.experts_told = count(worker.experts.told);
  out.experts_held = count(worker.experts.held);
  out.expert_messages = worker.experts.messages_sent + worker.experts.messages_received;
  out.holder = PictureOfHolder(worker.experts);
  out.computing = !worker.steps.idle();
  out.tokens_computed = worker.steps.tokens_computed;
  return out;
}

StageSnapshot State::PictureOf(const PlanStage& stage) const {
  StageSnapshot out;
  out.worker = stage.worker;
  out.first_layer = stage.first;
  out.end_layer = stage.end;
  out.predicted_us = stage.predicted_us;  // of a hole as it was planned, else as of now
  out.binding = stage.binding;
  const Worker* worker = roster.Find(stage.worker);
  if (worker != nullptr) {
    out.predicted_us = costs.TokenUs(*worker, stage.layers());
    if (const auto stage_us = worker->times.stage_us.Median())
      out.measured_us = *stage_us + kServerStepUs;
  }
  if (stage.IsHole() && lifecycle.staged())
    for (const PlanStage& filling : lifecycle.staged()->stages)
      if (filling.layers().Overlaps(stage.layers())) out.filled_by.push_back(filling.worker);
  if (!stage.IsHole()) out.loss_us = LossUs(stage);
  return out;
}

// The least that anybody else needs: rows to compute where the layers are loaded, layers to fetch
// and to load, too, where they are not but would fit.
std::optional<double> State::LossUs(const PlanStage& stage) const {
  const uint64_t live_rows = sessions.CountLiveRows();
  std::optional<double> least;
  for (const auto& [id, worker] : roster) {
    if (id == stage.worker || !worker.ready || worker.leaves_at) continue;
    const double row_us = costs.StepUs(worker, stage.layers(), options.prefill_chunk_rows) /
                          options.prefill_chunk_rows;
    double us = 0;
    const auto standing_by = std::find_if(
        worker.bindings.begin(), worker.bindings.end(),
        [&](const Binding& binding) { return binding.loaded && binding.layers == stage.layers(); });
    if (standing_by != worker.bindings.end()) {
      const BoundStage bound{standing_by->id, id, standing_by->stage, standing_by->layers};
      us = static_cast<double>(pipeline.Lag(bound)) * row_us;
    } else {
      if (stage.form == LayerForm::kHub && !worker.offer.can_be_hub) continue;
      const bool fits = lifecycle.FitsBeside(
          worker, stage.layers(),
          [this](const Binding& binding) { return lifecycle.active()->Uses(binding.id); });
      if (!fits) continue;
      us = lifecycle.LoadUs(worker, stage.layers()) + static_cast<double>(live_rows) * row_us;
    }
    if (!least || us < *least) least = us;
  }
  return least;
}

const char* State::ExpertsInWords() const {
  return options.model.is_in_groups() ? "neuron groups" : "experts";
}

// ", 3 hold its experts"; the hubs among them count, too.
std::string State::DescribeHolders() const {
  const auto holders = std::count_if(roster.begin(), roster.end(), [](const auto& entry) {
    const std::vector<bool>& held = entry.second.experts.held;
    return std::find(held.begin(), held.end(), true) != held.end();
  });
  return ", " + std::to_string(holders) + (holders == 1 ? " holds" : " hold") + " its " +
         ExpertsInWords();
}

void State::DescribeExperts(Snapshot& picture) const {
  const Experts::Coverage& coverage = experts.coverage();
  picture.message += " Of " + std::to_string(coverage.needed) + " " + ExpertsInWords() + " " +
                     std::to_string(coverage.held) + " are loaded.";
  if (coverage.missing_bytes == 0) return;
  picture.missing_memory_bytes = coverage.missing_bytes;
  picture.message += " They need " + HumanBytes(coverage.missing_bytes) +
                     " more memory: open the join link on another device.";
}

// The sentence for people. `done_bytes` of `total_bytes` are downloaded for a staged plan.
void State::DescribeState(uint64_t done_bytes, uint64_t total_bytes, Snapshot& picture) const {
  const SwarmPlan* active = lifecycle.active();
  const SwarmPlan* staged = lifecycle.staged();
  switch (picture.state) {
    case SwarmState::kUp:
      picture.message = "Ready: " + Devices(active->stages.size()) + " compute" +
                        (active->stages.size() == 1 ? "s" : "") + " the model" +
                        (active->is_hub() ? DescribeHolders() : "") + ".";
      if (planning.whole_on() && active->StageOf(*planning.whole_on()))
        picture.message = "Ready: " + roster.Find(*planning.whole_on())->offer.name +
                          " computes the whole model, as its user chose.";
      if (staged)
        picture.message += planning.whole_on() && staged->StageOf(*planning.whole_on())
                               ? " A device is getting ready to compute the whole model."
                               : " A faster arrangement is being prepared.";
      break;
    case SwarmState::kPreparing:
      picture.message = "Preparing: " + Devices(staged->stages.size()) +
                        (staged->stages.size() == 1 ? " loads its" : " load their") + " layers" +
                        Percent(done_bytes, total_bytes) + ".";
      if (staged->is_hub()) DescribeExperts(picture);
      break;
    case SwarmState::kRepairing:
      picture.message = staged
                            ? "A device has gone: another one takes over its layers" +
                                  Percent(done_bytes, total_bytes) + "."
                            : "A device has gone and its layers are missing. " + planning.problem();
      picture.missing_memory_bytes = planning.missing_memory_bytes();
      break;
    case SwarmState::kDown:
      picture.missing_memory_bytes = planning.missing_memory_bytes();
      picture.message = planning.problem();
      if (picture.message.empty())
        picture.message =
            planning.under_way()
                ? "Looking for a way to share the model among the devices."
                : "No device computes for this swarm yet: open the join link on a device.";
      break;
  }
  if (picture.state != SwarmState::kUp && !package_problem.empty())
    picture.message = package_problem;
  if (planning.waits() && picture.state != SwarmState::kUp)
    picture.message = "The server has started again and waits for " + Devices(awaited.size()) +
                      " that computed before.";
}

Snapshot State::MakeSnapshot(Instant at) const {
  Snapshot picture;
  picture.state = StateOf(lifecycle);
  const SwarmPlan* active = lifecycle.active();
  const SwarmPlan* staged = lifecycle.staged();
  uint64_t done_bytes = 0, total_bytes = 0;
  for (const auto& [id, worker] : roster) {
    picture.workers.push_back(PictureOf(id, worker));
    if (worker.ready && staged && staged->StageOf(id)) {
      done_bytes += worker.layers.downloaded_bytes;
      total_bytes += worker.layers.download_total_bytes;
    }
  }

  picture.covered_layers.assign(costs.layer_count(), active || staged);
  for (uint32_t layer = 0; layer < planning.covered_end(); ++layer)
    picture.covered_layers[layer] = true;
  if (active) {
    picture.epoch = lifecycle.version();
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
  for (const auto& [id, worker] : roster)
    for (const Binding& binding : worker.bindings) {
      if ((active && active->Uses(binding.id)) || (staged && staged->Uses(binding.id))) continue;
      const BoundStage bound{binding.id, id, binding.stage, binding.layers};
      picture.standbys.push_back(
          {id, binding.layers.first, binding.layers.end, binding.loaded, pipeline.Lag(bound)});
    }
  picture.consents = wishes.Consents(at);
  picture.experts_needed = experts.coverage().needed;
  picture.in_neuron_groups = options.model.is_in_groups();
  picture.experts_held = experts.coverage().held;
  picture.initial_error = pipeline.errors().initial.value();
  picture.running_error = pipeline.errors().running.value();
  picture.history_bytes = sessions.history_bytes();
  picture.history_limit_bytes = options.history_bytes;
  picture.active_requests = sessions.active_count();
  picture.kept_prefixes = sessions.kept_count();
  picture.queued_requests = requests.waiting_count();
  picture.completed_requests = requests.counts().completed;
  picture.failed_requests = requests.counts().failed;
  picture.losses = PictureOfLosses();
  picture.lost_groups = requests.counts().lost_groups;
  picture.generated_tokens = requests.counts().generated_tokens;
  picture.forced_tokens = requests.counts().forced_tokens;
  picture.prompt_tokens = requests.counts().prompt_tokens;
  picture.cached_prompt_tokens = requests.counts().cached_prompt_tokens;
  picture.computed_positions = sessions.computed_positions();
  picture.boundary_bytes_sent = pipeline.traffic().bytes_sent;
  picture.boundary_bytes_received = pipeline.traffic().bytes_received;
  picture.tokens_per_second = requests.TokensPerSecond(at);

  DescribeState(done_bytes, total_bytes, picture);
  return picture;
}

}  // namespace weft::swarm
