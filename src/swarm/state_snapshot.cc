// The picture of the swarm, from the parts of the core.
#include "swarm/snapshot.h"

#include <algorithm>

#include "swarm/state.h"

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
  out.used_bytes = std::max(costs.MemoryBytes(worker.memory.weight_factor, worker.layers.loaded),
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
  out.download_bytes_per_s = worker.offer.download_bytes_per_s;
  out.us_per_token = worker.times.compute_us.Median().value_or(0);
  out.speed_bytes_per_us = worker.times.speed.Median().value_or(0);
  out.computing = !worker.steps.in_flight.empty();
  out.tokens_computed = worker.steps.tokens_computed;
  return out;
}

// The sentence for people. `done_bytes` of `total_bytes` are downloaded for a staged plan.
void State::DescribeState(uint64_t done_bytes, uint64_t total_bytes, Snapshot& picture) const {
  const SwarmPlan* active = lifecycle.active();
  const SwarmPlan* staged = lifecycle.staged();
  switch (picture.state) {
    case SwarmState::kUp:
      picture.message = "Ready: " + Devices(active->stages.size()) + " compute" +
                        (active->stages.size() == 1 ? "s" : "") + " the model.";
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
      break;
    case SwarmState::kRepairing:
      picture.message =
          staged ? "A device has gone: another one takes over its layers" +
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
    picture.predicted_us_per_token = active->predicted_us;
    bool all_measured = true;
    for (const PlanStage& stage : active->stages) {
      const Worker* worker = roster.Find(stage.worker);
      const double measured_us = worker ? worker->times.stage_us.Median().value_or(0) : 0;
      picture.stages.push_back(
          {stage.worker, stage.first, stage.end, stage.predicted_us, measured_us});
      picture.measured_us_per_token += measured_us;
      all_measured = all_measured && measured_us > 0;
    }
    if (!all_measured) picture.measured_us_per_token = 0;
  }
  picture.active_requests = sessions.active_count();
  picture.queued_requests = requests.waiting_count();
  picture.completed_requests = requests.counts().completed;
  picture.failed_requests = requests.counts().failed;
  picture.generated_tokens = requests.counts().generated_tokens;
  picture.boundary_bytes_sent = pipeline.traffic().bytes_sent;
  picture.boundary_bytes_received = pipeline.traffic().bytes_received;
  picture.tokens_per_second = requests.TokensPerSecond(at);

  DescribeState(done_bytes, total_bytes, picture);
  return picture;
}

}  // namespace weft::swarm
