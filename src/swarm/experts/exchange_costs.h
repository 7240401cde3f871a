// What hubs wait for at a layer, from what is known of devices: the way to planner/expert_cost.h,
// for workers that are connected and for those that somebody describes in a file (`weft plan`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "swarm/options.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/device.h"

namespace weft::swarm {

// A device that lends memory to experts.
struct ExpertLender {
  DeviceNumbers device;
  uint64_t room_bytes = 0;  // of memory, beside the layers that it runs
};

// For a step of one row, at one layer with experts. What goes from a hub to a holder passes the
// server, unless both exchange messages in datagrams; what the hub holds itself goes nowhere.
// `own`: of `lenders`, the hub; -1: it lends nothing.
double ExchangeUs(const CoreOptions& options, const DeviceNumbers& hub,
                  const std::vector<ExpertLender>& lenders, int own);

// Of devices that hold no experts while they are hubs (rows_to_server) the one that may be a hub:
// with two of them as hubs of a half of the layers each, nobody would hold any. It is the fastest
// of those with room for all layers, or of all where nobody has; its place in `devices`.
std::optional<size_t> ServedHubOf(const Costs& costs, const std::vector<DeviceNumbers>& devices);

// Whether all experts find a place.
bool ExpertsFit(const ModelInfo& model, const std::vector<ExpertLender>& lenders);

// A mixture's, not neuron groups.
bool HasExperts(const ModelInfo& model);
// Of the weights of a neuron group; 0 where there are none.
uint64_t GroupBytes(const ModelInfo& model);
// Whether there are both, whole layers and hubs whose experts or groups are elsewhere.
bool HasChoice(const ModelInfo& model);

// Whether hubs are chosen where there are plans of both, with so much time for a token. Whole
// layers wait for nobody within a layer: what is about as fast stays whole.
bool HubsPay(double layers_us, double hubs_us);

// Why there is no plan of this kind for the model, and what to do; empty: there is.
std::string PlanProblem(const ModelInfo& model, PlanKind kind);

}  // namespace weft::swarm
