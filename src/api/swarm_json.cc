#include "api/swarm_json.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace weft::api {
namespace json = boost::json;

namespace {

const char* StateName(swarm::SwarmState state) {
  switch (state) {
    case swarm::SwarmState::kDown:
      return "down";
    case swarm::SwarmState::kPreparing:
      return "preparing";
    case swarm::SwarmState::kRepairing:
      return "repairing";
    case swarm::SwarmState::kUp:
      return "up";
  }
  return "down";
}

const char* StateName(swarm::WorkerState state) {
  switch (state) {
    case swarm::WorkerState::kConnecting:
      return "connecting";
    case swarm::WorkerState::kMeasuring:
      return "measuring";
    case swarm::WorkerState::kIdle:
      return "idle";
    case swarm::WorkerState::kPreparing:
      return "preparing";
    case swarm::WorkerState::kActive:
      return "active";
    case swarm::WorkerState::kStandby:
      return "standby";
  }
  return "connecting";
}

json::value HolderJson(const std::optional<swarm::HolderSnapshot>& holder) {
  if (!holder) return nullptr;
  const swarm::HolderCounts& counts = holder->counts;
  return json::object{{"calls", counts.calls},
                      {"rows", counts.rows},
                      {"hedges", counts.hedges},
                      {"wins", counts.wins},
                      {"losses", counts.losses},
                      {"won_hedges", counts.won_hedges},
                      {"lost_hedges", counts.lost_hedges},
                      {"timeouts", counts.timeouts},
                      {"refused", counts.refused},
                      {"sent_bytes", counts.sent_bytes},
                      {"received_bytes", counts.received_bytes},
                      {"p50_ms", holder->times.p50_ms},
                      {"slowest_ms", holder->times.slowest_ms},
                      {"queue_ms", holder->times.queue_ms}};
}

json::object StepsJson(const swarm::StepSums& sums) {
  return {{"count", sums.count},
          {"rows", sums.rows},
          {"queue_us", sums.queue_us},
          {"compute_us", sums.compute_us},
          {"passed_us", sums.passed_us}};
}

json::object CountsJson(const std::vector<std::pair<std::string, uint64_t>>& counts) {
  json::object object;
  for (const auto& [name, count] : counts) object[name] = count;
  return object;
}

json::object LossesJson(const swarm::LossSnapshot& losses) {
  json::array lines;
  for (const auto& line : losses.lines)
    lines.push_back({{"worker", line.worker.value()},
                     {"ready", line.ready},
                     {"blocked", line.blocked},
                     {"loss", line.loss}});
  return {{"hub", losses.hub.value()},
          {"state", losses.state},
          {"message", losses.message},
          {"lines", std::move(lines)},
          {"groups", losses.groups},
          {"lost", losses.lost},
          {"share", losses.share},
          {"falls", losses.falls},
          {"datagrams", losses.datagrams},
          {"late", losses.late},
          {"canaries", losses.canaries},
          {"drift", losses.drift},
          {"dropped", CountsJson(losses.dropped)},
          {"fragments", CountsJson(losses.fragments)}};
}

json::object StageJson(const swarm::StageSnapshot& stage) {
  json::array filled_by;
  for (const swarm::WorkerId worker : stage.filled_by) filled_by.push_back(worker.value());
  return {{"worker", stage.worker.value()},
          {"first_layer", stage.first_layer},
          {"end_layer", stage.end_layer},
          {"predicted_us", stage.predicted_us},
          {"measured_us", stage.measured_us},
          {"binding", stage.binding.value()},
          {"filled_by", std::move(filled_by)},
          {"loss_us", stage.loss_us ? json::value(*stage.loss_us) : nullptr}};
}

json::value ErrorJson(const std::optional<double>& error) {
  return error ? json::value(*error) : nullptr;
}

// `state`: of SwarmState, or "idle".
json::object PictureJson(const swarm::Snapshot& snapshot, const ModelCard& model,
                         const char* state) {
  json::array workers, stages, side_plans, standbys, covered, losses, consents;
  for (const auto& asked : snapshot.consents)
    consents.push_back({{"worker", asked.worker.value()}, {"ends_in_s", asked.ends_in_s}});
  for (const auto& hub : snapshot.losses) losses.push_back(LossesJson(hub));
  for (const auto& worker : snapshot.workers) workers.push_back(DeviceJson(worker));
  for (const auto& stage : snapshot.stages) stages.push_back(StageJson(stage));
  for (const auto& plan : snapshot.side_plans) {
    json::array own;
    for (const auto& stage : plan.stages) own.push_back(StageJson(stage));
    side_plans.push_back({{"stages", std::move(own)}, {"active_requests", plan.active_requests}});
  }
  for (const auto& standby : snapshot.standbys) {
    standbys.push_back({{"worker", standby.worker.value()},
                        {"first_layer", standby.first_layer},
                        {"end_layer", standby.end_layer},
                        {"loaded", standby.loaded},
                        {"lag_rows", standby.lag_rows}});
  }
  for (const bool layer : snapshot.covered_layers) covered.push_back(layer);
  return {{"state", state},
          {"message", snapshot.message},
          {"missing_memory_bytes", snapshot.missing_memory_bytes},
          {"model",
           {{"name", model.name},
            {"architecture", model.architecture},
            {"quantisation", model.quantisation},
            {"layers", model.layer_count},
            {"weight_bytes", model.weight_bytes},
            {"context_length", model.context_length}}},
          {"plan_version", snapshot.plan_version},
          {"predicted_us_per_token", snapshot.predicted_us_per_token},
          {"measured_us_per_token", snapshot.measured_us_per_token},
          {"prediction_error",
           {{"initial", ErrorJson(snapshot.initial_error)},
            {"running", ErrorJson(snapshot.running_error)}}},
          {"tokens_per_second", snapshot.tokens_per_second},
          {"active_requests", snapshot.active_requests},
          {"queued_requests", snapshot.queued_requests},
          {"kept_prefixes", snapshot.kept_prefixes},
          {"completed_requests", snapshot.completed_requests},
          {"failed_requests", snapshot.failed_requests},
          {"generated_tokens", snapshot.generated_tokens},
          {"side_tokens", snapshot.side_tokens},
          {"prompt_tokens", snapshot.prompt_tokens},
          {"cached_prompt_tokens", snapshot.cached_prompt_tokens},
          {"computed_positions", snapshot.computed_positions},
          {"boundary_bytes_sent", snapshot.boundary_bytes_sent},
          {"boundary_bytes_received", snapshot.boundary_bytes_received},
          {"in_neuron_groups", snapshot.in_neuron_groups},
          {"experts_needed", snapshot.experts_needed},
          {"experts_held", snapshot.experts_held},
          {"losses", std::move(losses)},
          {"lost_groups", snapshot.lost_groups},
          {"covered_layers", std::move(covered)},
          {"stages", std::move(stages)},
          {"side_plans", std::move(side_plans)},
          {"standbys", std::move(standbys)},
          {"consents", std::move(consents)},
          {"history_bytes", snapshot.history_bytes},
          {"history_limit_bytes", snapshot.history_limit_bytes},
          {"workers", std::move(workers)}};
}

}  // namespace

json::object DeviceJson(const swarm::WorkerSnapshot& worker) {
  json::array cached;
  for (const uint32_t layer : worker.cached_layers) cached.push_back(layer);
  return {{"id", worker.id.value()},
          {"name", worker.name},
          {"kind", worker.kind},
          {"engine", worker.engine},
          {"device", worker.device},
          {"state", StateName(worker.state)},
          {"memory_bytes", worker.memory_bytes},
          {"used_bytes", worker.used_bytes},
          {"first_layer", worker.first_layer},
          {"end_layer", worker.end_layer},
          {"cached_layers", std::move(cached)},
          {"downloaded_bytes", worker.downloaded_bytes},
          {"download_total_bytes", worker.download_total_bytes},
          {"latency_ms", worker.latency_ms},
          {"download_bytes_per_s", worker.download_bytes_per_s},
          {"upload_bytes_per_s", worker.upload_bytes_per_s},
          {"overhead_us", worker.overhead_us},
          {"handover_us", worker.handover_us},
          {"batch_gain", worker.batch_gain},
          {"load_bytes_per_us", worker.load_bytes_per_us},
          {"expected_stay_s", worker.expected_stay_s},
          {"us_per_token", worker.us_per_token},
          {"speed_bytes_per_us", worker.speed_bytes_per_us},
          {"computing", worker.computing},
          {"tokens_computed", worker.tokens_computed},
          {"steps", StepsJson(worker.steps)},
          {"bytes_sent", worker.bytes_sent},
          {"bytes_received", worker.bytes_received},
          {"experts_told", worker.experts_told},
          {"experts_held", worker.experts_held},
          {"expert_messages", worker.expert_messages},
          {"holder", HolderJson(worker.holder)},
          {"check", worker.check},
          {"problem", worker.problem}};
}

std::string SwarmJson(const swarm::Snapshot& snapshot, const ModelCard& model) {
  return json::serialize(PictureJson(snapshot, model, StateName(snapshot.state)));
}

std::string IdleSwarmJson() {
  swarm::Snapshot idle;
  idle.message = "No model is loaded. Ask one, and it will be.";
  return json::serialize(PictureJson(idle, {}, "idle"));
}

std::string HelperJson(const swarm::Snapshot& snapshot, const std::string& name) {
  json::array devices;
  for (const swarm::WorkerSnapshot& worker : snapshot.workers) {
    if (worker.name != name) continue;
    devices.push_back(json::object{
        {"state", StateName(worker.state)}, {"check", worker.check}, {"problem", worker.problem}});
  }
  return json::serialize(json::object{{"devices", std::move(devices)}});
}

}  // namespace weft::api
