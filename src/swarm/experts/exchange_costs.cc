#include "swarm/experts/exchange_costs.h"

#include <algorithm>

#include "planner/expert_cost.h"
#include "wire/expert_frame.h"

namespace weft::swarm {
namespace {

// Layers of one model hardly differ: that with the largest experts stands for all.
const ModelLayer* SparseLayer(const ModelInfo& model) {
  const ModelLayer* largest = nullptr;
  for (const ModelLayer& layer : model.layers)
    if (layer.expert_count > 0 && (!largest || layer.expert_bytes > largest->expert_bytes))
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

double ExchangeUs(const ModelInfo& model, const DeviceNumbers& hub,
                  const std::vector<ExpertLender>& lenders, int own) {
  const ModelLayer* layer = SparseLayer(model);
  if (layer == nullptr) return 0;
  const double row_bytes = static_cast<double>(wire::kShardHeadBytes + wire::kExpertHeaderBytes) +
                           static_cast<double>(model.hidden_columns) * sizeof(float);
  const planner::WorkerMetrics of_hub = MetricsOf(hub);
  const auto sparse_layers = static_cast<uint64_t>(std::ranges::count_if(
      model.layers, [](const ModelLayer& each) { return each.expert_count > 0; }));
  std::vector<planner::ExpertHolderCost> holders;
  for (size_t i = 0; i < lenders.size(); ++i) {
    const planner::WorkerMetrics metrics = MetricsOf(lenders[i].device);
    planner::ExpertHolderCost& holder = holders.emplace_back();
    holder.share = BytesOn(lenders[i]);
    holder.most = static_cast<uint32_t>(
        std::min(holder.share / static_cast<double>(sparse_layers * layer->expert_bytes), 65535.0));
    holder.expert_us = static_cast<double>(layer->expert_bytes) / metrics.compute_speed;
    if (static_cast<int>(i) == own) continue;
    // A row there, and one back for each expert, or for all groups.
    holder.round_trip_us = of_hub.latency_us + metrics.latency_us + 2 * kServerStepUs +
                           metrics.session_overhead_us + row_bytes / of_hub.bandwidth_up +
                           row_bytes / metrics.bandwidth_down;
    const double back_us = row_bytes / metrics.bandwidth_up + row_bytes / of_hub.bandwidth_down;
    (layer->groups ? holder.round_trip_us : holder.expert_us) += back_us;
  }
  if (layer->groups) return planner::SharedDispatchUs(holders, layer->expert_count);
  return planner::ExpectedDispatchUs(std::move(holders), layer->experts_per_token);
}

bool ExpertsFit(const ModelInfo& model, const std::vector<ExpertLender>& lenders) {
  double needed = 0, room = 0;
  for (const ModelLayer& layer : model.layers)
    needed += static_cast<double>(layer.expert_count) * static_cast<double>(layer.expert_bytes);
  for (const ExpertLender& lender : lenders) room += BytesOn(lender);
  return needed <= room;
}

}  // namespace weft::swarm
