#include "server/placement_record.h"

#include "base/log.h"

namespace weft::server {
namespace {

store::pb::Times ToRecord(const swarm::PlacedTimes& times) {
  store::pb::Times record;
  if (times.overhead_us) record.set_overhead_us(*times.overhead_us);
  if (times.handover_us) record.set_handover_us(*times.handover_us);
  if (times.bytes_per_us) record.set_bytes_per_us(*times.bytes_per_us);
  if (times.batch_gain) record.set_batch_gain(*times.batch_gain);
  if (times.down_rate) record.set_down_rate(*times.down_rate);
  if (times.up_rate) record.set_up_rate(*times.up_rate);
  if (times.load_rate) record.set_load_rate(*times.load_rate);
  return record;
}

swarm::PlacedTimes FromRecord(const store::pb::Times& record) {
  swarm::PlacedTimes times;
  if (record.has_overhead_us()) times.overhead_us = record.overhead_us();
  if (record.has_handover_us()) times.handover_us = record.handover_us();
  if (record.has_bytes_per_us()) times.bytes_per_us = record.bytes_per_us();
  if (record.has_batch_gain()) times.batch_gain = record.batch_gain();
  if (record.has_down_rate()) times.down_rate = record.down_rate();
  if (record.has_up_rate()) times.up_rate = record.up_rate();
  if (record.has_load_rate()) times.load_rate = record.load_rate();
  return times;
}

}  // namespace

store::pb::Placement ToRecord(const swarm::Placement& placement) {
  store::pb::Placement record;
  record.set_swarm_id(placement.swarm_id);
  record.set_incarnation(placement.incarnation);
  record.set_last_binding(placement.last_binding.value());
  record.set_last_session(placement.last_session.value());
  for (const swarm::PlacedDevice& device : placement.devices) {
    auto& out = *record.add_devices();
    out.set_id(device.device);
    for (const swarm::Binding& binding : device.bindings) {
      auto& bound = *out.add_bindings();
      bound.set_id(binding.id.value());
      bound.set_stage(binding.stage);
      bound.set_first_layer(binding.layers.first);
      bound.set_end_layer(binding.layers.end);
      bound.set_is_hub(binding.layers.is_hub());
    }
    out.set_weight_factor(device.weight_factor);
    out.set_used_bytes(device.used_bytes);
    *out.mutable_times() = ToRecord(device.times);
  }
  for (const swarm::PlacedLifetime& lifetime : placement.lifetimes) {
    auto& out = *record.add_lifetimes();
    out.set_device(lifetime.device);
    out.set_losses(lifetime.losses);
    out.set_stayed_s(lifetime.stayed_s);
  }
  for (const swarm::PlacedStage& stage : placement.stages) {
    auto& out = *record.add_stages();
    out.set_binding(stage.binding.value());
    out.set_first_layer(stage.layers.first);
    out.set_end_layer(stage.layers.end);
    out.set_predicted_us(stage.predicted_us);
    out.set_is_hub(stage.layers.is_hub());
  }
  return record;
}

swarm::Placement FromRecord(const store::pb::Placement& record) {
  swarm::Placement placement;
  placement.swarm_id = record.swarm_id();
  placement.incarnation = record.incarnation();
  placement.last_binding = swarm::BindingId(record.last_binding());
  placement.last_session = swarm::SessionId(record.last_session());
  for (const auto& in : record.devices()) {
    swarm::PlacedDevice& device = placement.devices.emplace_back();
    device.device = in.id();
    for (const auto& bound : in.bindings()) {
      swarm::Binding& binding = device.bindings.emplace_back();
      binding.id = swarm::BindingId(bound.id());
      binding.stage = bound.stage();
      binding.layers = {bound.first_layer(), bound.end_layer(), LayerFormOf(bound.is_hub())};
      binding.loaded = true;
    }
    device.weight_factor = in.weight_factor();
    device.used_bytes = in.used_bytes();
    device.times = FromRecord(in.times());
  }
  for (const auto& lifetime : record.lifetimes())
    placement.lifetimes.push_back({lifetime.device(), lifetime.losses(), lifetime.stayed_s()});
  for (const auto& stage : record.stages())
    placement.stages.push_back(
        {swarm::BindingId(stage.binding()),
         {stage.first_layer(), stage.end_layer(), LayerFormOf(stage.is_hub())},
         stage.predicted_us()});
  return placement;
}

store::pb::Popularity ToRecord(const std::vector<swarm::PlacedPopularity>& popularity,
                               const std::string& package_digest) {
  store::pb::Popularity record;
  record.set_package_digest(package_digest);
  for (const swarm::PlacedPopularity& each : popularity) {
    auto& out = *record.add_layers();
    out.set_layer(each.layer);
    out.mutable_counts()->Assign(each.counts.begin(), each.counts.end());
  }
  return record;
}

std::vector<swarm::PlacedPopularity> FromRecord(const store::pb::Popularity& record) {
  std::vector<swarm::PlacedPopularity> popularity;
  for (const auto& each : record.layers())
    popularity.push_back({each.layer(), {each.counts().begin(), each.counts().end()}});
  return popularity;
}

store::pb::Placement ToRecord(const swarm::Placement& placement, const swarm::CoreOptions& core) {
  store::pb::Placement record = ToRecord(placement);
  record.set_context_length(core.context_length);
  record.set_session_count(core.session_count);
  record.set_marks(core.marks);
  return record;
}

std::optional<swarm::Placement> TakeUp(const store::pb::Placement& record,
                                       const swarm::CoreOptions& core) {
  // Memory was planned for so many positions and marks of so many sessions.
  if (record.context_length() != core.context_length ||
      record.session_count() != core.session_count ||
      (core.model.is_recurrent() && record.marks() != core.marks)) {
    return std::nullopt;
  }
  swarm::Placement placement = FromRecord(record);
  const Status status =
      swarm::CheckPlacement(placement, static_cast<uint32_t>(core.model.layers.size()));
  if (status.ok()) return placement;
  LogWarn("the placement that was noted is not used: {}", status.error().message());
  return std::nullopt;
}

}  // namespace weft::server
