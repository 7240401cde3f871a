#include "swarm/placement.h"

#include <cmath>
#include <map>
#include <set>

#include "swarm/incarnation.h"

namespace weft::swarm {
namespace {

constexpr size_t kSwarmIdBytes = 16;
// Far from where numbers begin again at 0.
constexpr uint32_t kMostNumber = 1u << 31;

Error Wrong(std::string message) {
  return Error(ErrorCode::kInvalidData, "A placement " + std::move(message) + ".");
}

bool CanBe(const PlacedTimes& times) {
  const double overhead_us = times.overhead_us.value_or(0);
  if (!std::isfinite(overhead_us) || overhead_us < 0) return false;
  // Where steps are quicker than pings it is negative.
  if (!std::isfinite(times.handover_us.value_or(0))) return false;
  for (const auto& rate :
       {times.bytes_per_us, times.batch_gain, times.down_rate, times.up_rate, times.load_rate})
    if (rate && !(std::isfinite(*rate) && *rate > 0)) return false;
  return true;
}

Status CheckDevice(const PlacedDevice& device, const Placement& placement, uint32_t layer_count) {
  if (device.device.empty()) return Wrong("names a device without an id");
  if (!(device.weight_factor >= kMinWeightFactor && device.weight_factor <= kMaxWeightFactor))
    return Wrong("gives a weight factor outside 0.25 to 16");
  if (!CanBe(device.times)) return Wrong("gives a time or a rate that nothing has");
  for (const Binding& binding : device.bindings) {
    if (!binding.id.is_set() || binding.id > placement.last_binding)
      return Wrong("names binding " + ToString(binding.id) + ", expected 1 to " +
                   ToString(placement.last_binding));
    if (binding.layers.first >= binding.layers.end || binding.layers.end > layer_count)
      return Wrong("binds layers that the model does not have");
  }
  return OkStatus();
}

}  // namespace

Status CheckPlacement(const Placement& placement, uint32_t layer_count) {
  if (placement.swarm_id.size() != kSwarmIdBytes) return Wrong("has a swarm id of a wrong length");
  if (placement.incarnation >= kMostIncarnation) return Wrong("has used up its incarnations");
  if (placement.last_binding.value() > kMostNumber || placement.last_session.value() > kMostNumber)
    return Wrong("has used up its numbers");
  std::map<BindingId, const PlacedDevice*> holders;
  std::map<BindingId, LayerSpan> spans;
  std::set<std::string> devices;
  for (const PlacedDevice& device : placement.devices) {
    TRY(CheckDevice(device, placement, layer_count));
    if (!devices.insert(device.device).second) return Wrong("names a device twice");
    for (const Binding& binding : device.bindings) {
      if (!holders.emplace(binding.id, &device).second) return Wrong("names a binding twice");
      spans.emplace(binding.id, binding.layers);
    }
  }
  uint32_t next = 0;
  for (const PlacedStage& stage : placement.stages) {
    if (stage.layers.first != next || stage.layers.end <= next)
      return Wrong("has a plan whose stages do not follow each other");
    if (!(std::isfinite(stage.predicted_us) && stage.predicted_us >= 0))
      return Wrong("gives a time that is not a number");
    next = stage.layers.end;
    if (!stage.binding.is_set()) continue;
    const auto span = spans.find(stage.binding);
    if (span == spans.end() || span->second != stage.layers)
      return Wrong("has a stage whose binding no device holds");
  }
  if (next != 0 && next != layer_count) return Wrong("has a plan that does not cover the model");
  return OkStatus();
}

}  // namespace weft::swarm
