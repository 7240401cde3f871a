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

// One exchange of a hub with the holders of a layer's parts.
struct Exchange {
  uint32_t parts = 0;  // that are asked for
  uint64_t part_bytes = 0;
  uint32_t columns_back = 0;  // of a row that comes for each part, or for all
  bool shared = false;        // whoever holds some computes any share of them
  bool sums = false;          // one row for all of a holder
  double layers = 1;          // whose parts the holders' memory is for; 0: all hold all
};

// What a hub waits for at it, if every layer with experts had as many bytes of them.
double DispatchUs(const ModelInfo& model, const Exchange& exchange, const DeviceNumbers& hub,
                  const std::vector<ExpertLender>& lenders, int own, wire::RowType rows) {
  const double head_bytes = static_cast<double>(wire::kShardHeadBytes + wire::kExpertHeaderBytes);
  const size_t element_bytes = wire::ElementBytes(exchange.shared ? wire::RowType::kF32 : rows);
  const double row_bytes = head_bytes + static_cast<double>(model.hidden_columns * element_bytes);
  const double back_bytes = head_bytes + static_cast<double>(exchange.columns_back * element_bytes);
  const planner::WorkerMetrics of_hub = MetricsOf(hub);
  std::vector<planner::ExpertHolderCost> holders;
  for (size_t i = 0; i < lenders.size(); ++i) {
    const planner::WorkerMetrics metrics = MetricsOf(lenders[i].device);
    planner::ExpertHolderCost& holder = holders.emplace_back();
    holder.share = BytesOn(lenders[i]);
    if (exchange.layers > 0)
      holder.most = static_cast<uint32_t>(std::min(
          holder.share / (exchange.layers * static_cast<double>(exchange.part_bytes)), 65535.0));
    holder.expert_us = static_cast<double>(exchange.part_bytes) / metrics.compute_speed;
    if (static_cast<int>(i) == own) continue;
    // A row there, and one back for each expert or range, or for all groups. To a hub that the
    // server serves only the sum of all goes.
    holder.round_trip_us = TripUs(hub, lenders[i].device) + row_bytes / of_hub.bandwidth_up +
                           row_bytes / metrics.bandwidth_down;
    const double up_us = back_bytes / metrics.bandwidth_up;
    const double down_us = back_bytes / of_hub.bandwidth_down;
    (exchange.sums ? holder.round_trip_us : holder.expert_us) += up_us;
    (exchange.sums || hub.rows_to_server ? holder.round_trip_us : holder.expert_us) += down_us;
  }
  if (exchange.shared) return planner::SharedDispatchUs(holders, exchange.parts);
  return planner::ExpectedDispatchUs(std::move(holders), exchange.parts);
}

Exchange ExpertsOf(const ModelInfo& model, const ModelLayer& layer, double layers) {
  return {layer.is_shared() ? layer.expert_count : layer.experts_per_token,
          layer.expert_bytes,
          layer.head_range_columns > 0 ? layer.head_range_columns : model.hidden_columns,
          layer.is_shared(),
          layer.groups,
          layers};
}

// The mean of those of the layer's products.
Exchange ProductsOf(const ModelLayer& layer) {
  return {layer.range_count / layer.range_exchanges,
          layer.range_bytes,
          layer.range_columns,
          true,
          false,
          0};
}

}  // namespace

double ExchangeUs(const CoreOptions& options, const DeviceNumbers& hub,
                  const std::vector<ExpertLender>& lenders, int own) {
  const ModelInfo& model = options.model;
  const auto rows = options.half_rows ? wire::RowType::kF16 : wire::RowType::kF32;
  const ModelLayer* usual = SparseLayer(model);
  if (usual == nullptr) return 0;
  double layer_count = 0, exchange_count = 0, products = 0;
  std::vector<const ModelLayer*> heads;
  for (const ModelLayer& layer : model.layers) {
    if (layer.expert_count == 0) continue;
    layer_count += 1;
    products += layer.range_exchanges;
    exchange_count += 1 + layer.range_exchanges;
    if (layer.head_range_columns > 0) heads.push_back(&layer);
  }
  const auto dispatch_us = [&](const Exchange& exchange) {
    return DispatchUs(model, exchange, hub, lenders, own, rows);
  };
  double us = (layer_count - static_cast<double>(heads.size())) *
              dispatch_us(ExpertsOf(model, *usual, layer_count));
  for (const ModelLayer* head : heads) us += dispatch_us(ExpertsOf(model, *head, 1));
  if (usual->range_count > 0) us += products * dispatch_us(ProductsOf(*usual));
  return us / exchange_count;
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
  for (const ModelLayer& layer : model.layers) needed += static_cast<double>(layer.parts_bytes());
  for (const ExpertLender& lender : lenders) room += BytesOn(lender);
  return needed <= room;
}

}  // namespace weft::swarm
