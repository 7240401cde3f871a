#include "swarm/exchange_costs.h"

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
  return SparseLayer(model) != nullptr;
}

double ExchangeUs(const ModelInfo& model, const DeviceNumbers& hub,
                  const std::vector<ExpertLender>& lenders, int own) {
  const ModelLayer* layer = SparseLayer(model);
  if (layer == nullptr) return 0;
  const double row_bytes = static_cast<double>(wire::kShardHeadBytes + wire::kExpertHeaderBytes) +
                           static_cast<double>(model.hidden_columns) * sizeof(float);
  const planner::WorkerMetrics of_hub = MetricsOf(hub);
  std::vector<planner::ExpertHolderCost> holders;
  for (size_t i = 0; i < lenders.size(); ++i) {
    const planner::WorkerMetrics metrics = MetricsOf(lenders[i].device);
    planner::ExpertHolderCost& holder = holders.emplace_back();
    holder.share = BytesOn(lenders[i]);
    holder.expert_us = static_cast<double>(layer->expert_bytes) / metrics.compute_speed;
    if (static_cast<int>(i) == own) continue;
    // A row there, and one back for each expert.
    holder.round_trip_us = of_hub.latency_us + metrics.latency_us + 2 * kServerStepUs +
                           metrics.session_overhead_us + row_bytes / of_hub.bandwidth_up +
                           row_bytes / metrics.bandwidth_down;
    holder.expert_us += row_bytes / metrics.bandwidth_up + row_bytes / of_hub.bandwidth_down;
  }
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
