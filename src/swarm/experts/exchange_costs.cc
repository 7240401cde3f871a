#include "swarm/experts/exchange_costs.h"

#include <algorithm>
#include <utility>

#include "planner/expert_cost.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

// Layers of one model hardly differ: that with the largest experts stands for all, but for an
// output head in ranges.
const ModelLayer* SparseLayer(const ModelInfo& model) {
  const ModelLayer* largest = nullptr;
  for (const ModelLayer& layer : model.layers)
    if (layer.expert_count > 0 && layer.head_range_columns == 0 &&
        (!largest || layer.expert_bytes > largest->expert_bytes))
      largest = &layer;
  return largest;
}

double BytesOn(const ExpertLender& lender) {
  return static_cast<double>(lender.room_bytes) / lender.device.weight_factor;
}

}  // namespace

bool HasExperts(const ModelInfo& model) {
  const ModelLayer* layer = SparseLayer(model);
  return layer != nullptr && !layer->groups;
}

uint64_t GroupBytes(const ModelInfo& model) {
  const ModelLayer* layer = SparseLayer(model);
  return layer != nullptr && layer->groups ? layer->expert_bytes : 0;
}

bool HasChoice(const ModelInfo& model) {
  return SparseLayer(model) != nullptr;
}

bool HubsPay(double layers_us, double hubs_us) {
  constexpr double kShare = 0.95;
  return hubs_us < kShare * layers_us;
}

std::string PlanProblem(const ModelInfo& model, PlanKind kind) {
  const bool in_groups = model.is_in_groups();
  if (kind == PlanKind::kExperts && !HasExperts(model))
    return "--plan experts needs a model that has experts: " + model.name +
           (in_groups ? " is in neuron groups, which --plan tensor is for." : " has none.");
  if (kind == PlanKind::kTensor && HasExperts(model))
    return "--plan tensor divides dense layers: " + model.name +
           " is a mixture of experts, which --plan experts is for.";
  if (kind == PlanKind::kTensor && !in_groups)
    return "--plan tensor needs a package in neuron groups: make one of " + model.name +
           " with `weft groups PACKAGE FOLDER --text FILE`.";
  return "";
}

namespace {

// Of a message that carries next to nothing. Two devices are no farther from each other than both
// are from the server. Where messages pass it, threads of all three hand them on. A hub that the
// server serves has its rows on a GPU, and reads them back in each of its layers.
double TripUs(const DeviceNumbers& hub, const DeviceNumbers& holder) {
  if (hub.messages && holder.messages) return LatencyUs(hub) + LatencyUs(holder);
  const double reading_us = hub.rows_to_server ? OverheadUs(hub) : 0;
  return StepLatencyUs(hub) + StepLatencyUs(holder) + 2 * kServerStepUs + OverheadUs(holder) +
         reading_us;
}

// What a hub waits for at this layer, if every layer with experts had as many bytes of them.
double DispatchUs(const ModelInfo& model, const ModelLayer& layer, size_t layer_count,
                  const DeviceNumbers& hub, const std::vector<ExpertLender>& lenders, int own,
                  wire::RowType rows) {
  const double head_bytes = static_cast<double>(wire::kShardHeadBytes + wire::kExpertHeaderBytes);
  const size_t element_bytes = wire::ElementBytes(layer.is_shared() ? wire::RowType::kF32 : rows);
  const double row_bytes = head_bytes + static_cast<double>(model.hidden_columns * element_bytes);
  const uint32_t columns_back =
      layer.head_range_columns > 0 ? layer.head_range_columns : model.hidden_columns;
  const double back_bytes = head_bytes + static_cast<double>(columns_back * element_bytes);
  const planner::WorkerMetrics of_hub = MetricsOf(hub);
  std::vector<planner::ExpertHolderCost> holders;
  for (size_t i = 0; i < lenders.size(); ++i) {
    const planner::WorkerMetrics metrics = MetricsOf(lenders[i].device);
    planner::ExpertHolderCost& holder = holders.emplace_back();
    holder.share = BytesOn(lenders[i]);
    holder.most = static_cast<uint32_t>(
        std::min(holder.share / static_cast<double>(layer_count * layer.expert_bytes), 65535.0));
    holder.expert_us = static_cast<double>(layer.expert_bytes) / metrics.compute_speed;
    if (static_cast<int>(i) == own) continue;
    // A row there, and one back for each expert or range, or for all groups. To a hub that the
    // server serves only the sum of all goes.
    holder.round_trip_us = TripUs(hub, lenders[i].device) + row_bytes / of_hub.bandwidth_up +
                           row_bytes / metrics.bandwidth_down;
    const double up_us = back_bytes / metrics.bandwidth_up;
    const double down_us = back_bytes / of_hub.bandwidth_down;
    (layer.groups ? holder.round_trip_us : holder.expert_us) += up_us;
    (layer.groups || hub.rows_to_server ? holder.round_trip_us : holder.expert_us) += down_us;
  }
  if (layer.is_shared()) return planner::SharedDispatchUs(holders, layer.expert_count);
  return planner::ExpectedDispatchUs(std::move(holders), layer.experts_per_token);
}

}  // namespace

double ExchangeUs(const CoreOptions& options, const DeviceNumbers& hub,
                  const std::vector<ExpertLender>& lenders, int own) {
  const ModelInfo& model = options.model;
  const auto rows = options.half_rows ? wire::RowType::kF16 : wire::RowType::kF32;
  const ModelLayer* usual = SparseLayer(model);
  if (usual == nullptr) return 0;
  size_t layer_count = 0;
  std::vector<const ModelLayer*> heads;
  for (const ModelLayer& layer : model.layers) {
    if (layer.expert_count == 0) continue;
    ++layer_count;
    if (layer.head_range_columns > 0) heads.push_back(&layer);
  }
  double us = static_cast<double>(layer_count - heads.size()) *
              DispatchUs(model, *usual, layer_count, hub, lenders, own, rows);
  for (const ModelLayer* head : heads) us += DispatchUs(model, *head, 1, hub, lenders, own, rows);
  return us / static_cast<double>(layer_count);
}

std::optional<size_t> ServedHubOf(const Costs& costs, const std::vector<DeviceNumbers>& devices) {
  const LayerSpan all{{0, costs.layer_count()}, LayerForm::kHub};
  std::optional<size_t> best;
  std::pair<bool, double> least;  // whether it has no room for all; the time for a token
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceNumbers& device = devices[i];
    if (!device.rows_to_server) continue;
    const bool is_tight = costs.MemoryBytes(device.weight_factor, all) > device.memory_bytes;
    const std::pair cost{is_tight, OverheadUs(device) + costs.Cost(all) / BytesPerUs(device)};
    if (best && cost >= least) continue;
    best = i;
    least = cost;
  }
  return best;
}

bool ExpertsFit(const ModelInfo& model, const std::vector<ExpertLender>& lenders) {
  double needed = 0, room = 0;
  for (const ModelLayer& layer : model.layers)
    needed += static_cast<double>(layer.expert_count) * static_cast<double>(layer.expert_bytes);
  for (const ExpertLender& lender : lenders) room += BytesOn(lender);
  return needed <= room;
}

}  // namespace weft::swarm
