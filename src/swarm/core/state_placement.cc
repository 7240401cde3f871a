// From a placement to the core's parts, and back.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "swarm/core/state.h"
#include "swarm/placement.h"

namespace weft::swarm {
namespace {

// Numbers of sessions are told as spent in blocks, so that a new one is no change of placement.
constexpr uint32_t kSessionBlock = 1024;
// The last placements may not have come to the disk: so many numbers of bindings are left out.
constexpr uint32_t kUnknownBindings = 1024;

PlacedDevice DeviceOf(const std::string& id, const std::vector<Binding>& bindings,
                      const WorkerMemory& memory, const WorkerTimes& times) {
  PlacedDevice device;
  device.device = id;
  std::copy_if(bindings.begin(), bindings.end(), std::back_inserter(device.bindings),
               [](const Binding& binding) { return binding.loaded; });
  device.weight_factor = memory.weight_factor;
  device.used_bytes = memory.reported_bytes;
  const auto rate = [](std::optional<double> median) {
    return median && std::isfinite(*median) && *median > 0 ? median : std::nullopt;
  };
  device.times.overhead_us = times.overhead_us;
  device.times.handover_us = times.handover_us.Median();
  device.times.bytes_per_us = rate(times.speed.Median());
  device.times.batch_gain = rate(times.batch_gain.Median());
  device.times.down_rate = rate(times.down_rate.Median());
  device.times.up_rate = rate(times.up_rate.Median());
  device.times.load_rate = rate(times.load_rate.Median());
  return device;
}

WorkerTimes TimesOf(const PlacedTimes& placed) {
  WorkerTimes times;
  const auto add = [](auto& ring, std::optional<double> median) {
    if (median) ring.Add(*median);
  };
  times.overhead_us = placed.overhead_us;
  add(times.handover_us, placed.handover_us);
  add(times.speed, placed.bytes_per_us);
  add(times.batch_gain, placed.batch_gain);
  add(times.down_rate, placed.down_rate);
  add(times.up_rate, placed.up_rate);
  add(times.load_rate, placed.load_rate);
  return times;
}

}  // namespace

// Raised with every change of what MakePlacement tells; what is measured changes with every step
// and is told once a minute.
uint64_t State::placement_version() const {
  constexpr Duration kMeasuredInterval = Seconds(60);
  return lifecycle.version() + sessions.last_id() / kSessionBlock +
         static_cast<uint64_t>(now.us / kMeasuredInterval.us);
}

Placement State::MakePlacement() const {
  Placement placement;
  placement.swarm_id = options.swarm_id;
  placement.last_binding = lifecycle.last_binding();
  placement.last_session = (sessions.last_id() / kSessionBlock + 2) * kSessionBlock;
  const auto add = [&](PlacedDevice device) {
    const bool known =
        std::any_of(placement.devices.begin(), placement.devices.end(),
                    [&](const PlacedDevice& each) { return each.device == device.device; });
    if (!device.device.empty() && !known) placement.devices.push_back(std::move(device));
  };
  // Of two connections of one device the one that serves counts.
  for (const bool used : {true, false})
    for (const auto& [id, worker] : roster)
      if (worker.ready && lifecycle.IsUsed(id) == used)
        add(DeviceOf(worker.offer.device_id, worker.bindings, worker.memory, worker.times));
  for (const Absence& absence : absences.all())
    add(DeviceOf(absence.device, absence.bindings, absence.memory, absence.times));
  placement.lifetimes = planning.lifetimes().Placed(now);
  placement.popularity = popularity.Placed();
  const SwarmPlan* active = lifecycle.active();
  if (active == nullptr) return placement;
  for (const PlanStage& stage : active->stages) {
    const bool is_placed = std::any_of(
        placement.devices.begin(), placement.devices.end(), [&](const PlacedDevice& device) {
          return std::any_of(device.bindings.begin(), device.bindings.end(),
                             [&](const Binding& each) { return each.id == stage.binding; });
        });
    placement.stages.push_back({is_placed ? stage.binding : 0, stage.layers(), stage.predicted_us});
  }
  return placement;
}

void State::Restore() {
  is_restored = true;
  if (!options.restored) return;
  const Placement& placement = *options.restored;
  const Status status = CheckPlacement(placement, costs.layer_count());
  CHECK(status.ok(), status.ok() ? "" : status.error().message());
  CHECK(placement.swarm_id == options.swarm_id);
  for (const PlacedDevice& device : placement.devices) {
    Absence absence;
    absence.device = device.device;
    absence.bindings = device.bindings;
    for (Binding& binding : absence.bindings) binding.loaded = true;
    absence.memory.weight_factor = device.weight_factor;
    absence.memory.reported_bytes = device.used_bytes;
    absence.times = TimesOf(device.times);
    absence.measured = device.times.overhead_us.has_value();
    absence.until = now + options.timeouts.resume_limit;
    absences.Add(std::move(absence));
    if (!device.bindings.empty()) awaited.insert(device.device);
  }
  SwarmPlan plan;
  for (const PlacedStage& stage : placement.stages) {
    plan.stages.push_back({0, stage.layers.first, stage.layers.end, stage.predicted_us,
                           stage.binding, 0, stage.layers.form});
    plan.predicted_us += stage.predicted_us;
  }
  lifecycle.Restore(std::move(plan), placement.last_binding + kUnknownBindings);
  sessions.ContinueAfter(placement.last_session);
  if (!awaited.empty()) planning.WaitUntil(now + options.timeouts.restart_limit);
}

// A device of before is here, with or without what it held.
void State::NoteReturn(const std::string& device) {
  if (awaited.erase(device) == 0) return;
  if (awaited.empty() || lifecycle.serves()) planning.StopWaiting();
}

}  // namespace weft::swarm
