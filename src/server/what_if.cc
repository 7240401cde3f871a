#include "server/what_if.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <utility>
#include <vector>

#include "planner/planner.h"
#include "server/responses.h"
#include "swarm/plan/planning.h"
#include "swarm/workers/costs.h"

namespace weft::server {
namespace json = boost::json;

namespace {

constexpr uint64_t kLeastBytes = 64ULL << 20;
constexpr uint64_t kMostBytes = 4ULL << 40;

std::optional<double> IfKnown(double value) {
  return value > 0 ? std::optional<double>(value) : std::nullopt;
}

// As the core has measured it; what the picture does not say is assumed of the device's kind.
swarm::DeviceNumbers NumbersOf(const swarm::WorkerSnapshot& worker, size_t layer_count) {
  swarm::DeviceNumbers device;
  device.name = worker.name;
  device.native = device.messages = worker.kind == "native";
  device.needs_onnx = worker.engine.starts_with("ort");
  device.memory_bytes = worker.memory_bytes;
  device.download_bytes_per_s = worker.download_bytes_per_s;
  device.upload_bytes_per_s = worker.upload_bytes_per_s;
  device.overhead_us = IfKnown(worker.overhead_us);
  device.bytes_per_us = IfKnown(worker.speed_bytes_per_us);
  device.latency_us = IfKnown(worker.latency_ms * 1000);
  device.handover_us = IfKnown(worker.handover_us);
  device.batch_gain = IfKnown(worker.batch_gain);
  device.load_bytes_per_us = IfKnown(worker.load_bytes_per_us);
  device.cached_layers.assign(layer_count, false);
  for (const uint32_t layer : worker.cached_layers)
    if (layer < layer_count) device.cached_layers[layer] = true;
  return device;
}

struct Case {
  planner::PlanOutcome outcome;
  std::vector<planner::WorkerMetrics> workers;
};

Case Solve(const swarm::CoreOptions& core, const std::vector<swarm::DeviceNumbers>& devices) {
  const swarm::Costs costs(core);
  Case result;
  for (const swarm::DeviceNumbers& device : devices) {
    const bool runs = device.needs_onnx ? core.model.has_onnx : core.model.lowered;
    if (runs && (device.native || !core.model.is_in_groups()))
      result.workers.push_back(swarm::MetricsOf(device));
  }
  result.outcome = swarm::RunPlanning(swarm::PlanningJob(costs, result.workers, {}));
  return result;
}

json::object JsonOf(const Case& found) {
  json::object object{{"runs", found.outcome.plan.has_value()},
                      {"missing_memory_bytes", found.outcome.missing_memory_bytes}};
  if (found.outcome.plan) object["predicted_us_per_token"] = found.outcome.plan->exec_us;
  return object;
}

}  // namespace

std::string WhatIfJson(const swarm::CoreOptions& core, const swarm::Snapshot& snapshot,
                       uint64_t memory_bytes) {
  const size_t layer_count = core.model.layers.size();
  std::vector<swarm::DeviceNumbers> devices;
  for (const swarm::WorkerSnapshot& worker : snapshot.workers)
    devices.push_back(NumbersOf(worker, layer_count));
  const Case now = Solve(core, devices);
  swarm::DeviceNumbers added;
  added.memory_bytes = memory_bytes;
  added.cached_layers.assign(layer_count, false);
  devices.push_back(std::move(added));
  const Case with = Solve(core, devices);
  json::object with_json = JsonOf(with);
  if (with.outcome.plan) {
    const auto newcomer = static_cast<int>(with.workers.size()) - 1;
    for (const planner::StageAssignment& stage : with.outcome.plan->stages) {
      if (stage.worker != newcomer) continue;
      with_json["first_layer"] = stage.first_layer;
      with_json["end_layer"] = stage.end_layer;
    }
  }
  return json::serialize(json::object{{"now", JsonOf(now)}, {"with", std::move(with_json)}});
}

WhatIf::WhatIf(swarm::CoreOptions core, SwarmHost& host, net::EventLoop& loop, TaskQueue& planning)
    : core_(std::make_shared<const swarm::CoreOptions>(std::move(core))),
      host_(host),
      loop_(loop),
      planning_(planning) {}

void WhatIf::Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> client) {
  const std::string text = request.QueryValue("memory_bytes");
  uint64_t memory_bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), memory_bytes);
  if (error != std::errc() || end != text.data() + text.size() || memory_bytes < kLeastBytes ||
      memory_bytes > kMostBytes) {
    return client->Send(ErrorResponse(
        {400, "'memory_bytes' must be a number from 67108864 (64 MiB) to 4398046511104 (4 TiB).",
         "invalid_request_error", "memory_bytes", ""}));
  }
  // A search holds up those that the swarm needs itself.
  if (is_searching_)
    return client->Send(ErrorResponse(OverShare("Another page asks the same just now.")));
  is_searching_ = true;
  planning_.Push([this, &loop = loop_, alive = std::weak_ptr(alive_), core = core_,
                  snapshot = host_.snapshot(), memory_bytes, client = std::move(client)]() mutable {
    std::string found = WhatIfJson(*core, snapshot, memory_bytes);
    loop.Post([this, alive, found = std::move(found), client = std::move(client)] {
      if (alive.expired()) return;
      is_searching_ = false;
      client->Send(JsonResponse(200, found));
    });
  });
}

}  // namespace weft::server
