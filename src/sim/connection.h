// What the simulator knows of a connection and of a request. Its alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/device.h"
#include "sim/hash_model.h"
#include "sim/model_worker.h"
#include "swarm/events.h"
#include "swarm/layer_set.h"

namespace weft::sim {

struct Connection {
  Device* device = nullptr;
  std::shared_ptr<ModelWorker> worker;
  std::shared_ptr<swarm::WorkerId> line;            // the worker's connection now
  bool open = true;                                 // as the server sees it
  swarm::LayerSet told;                             // layers that the core has told it to load
  double reported_factor = 1;                       // weight factor of its last message
  double earlier_factor = 0;                        // and before it came back
  bool doubted = false;                             // its claim counts where that is less
  bool ran_out = false;                             // of memory, once
  bool broken = false;                              // nothing passes any more
  bool survives = false;                            // its worker will come back with what it holds
  Instant last_down, last_up;                       // deliveries do not overtake each other
  Instant paused_until;                             // its machine stands still
  uint64_t message_limit = wire::kMaxControlBytes;  // longer messages a host would not receive
};

// Takes what a worker is told to load or to keep into `told`. False: it is not told to load.
inline bool NoteTold(const wire::pb::ServerMessage& message, uint32_t layer_count,
                     swarm::LayerSet& told) {
  if (message.has_prepare_stage()) {
    told.AddRange(message.prepare_stage().layers().first(), message.prepare_stage().layers().end());
    return true;
  }
  for (const auto& range : message.measure_speed().ranges())
    told.AddRange(range.first(), range.end());
  if (message.has_measure_speed()) return true;
  if (!message.has_retire() && !message.has_release()) return false;
  swarm::LayerSet keep(layer_count);
  for (const auto& range : message.retire().keep()) keep.AddRange(range.first(), range.end());
  for (uint32_t layer = 0; layer < layer_count; ++layer)
    if (!keep.Has(layer)) told.Remove(layer);
  return false;
}

struct Tracked {
  swarm::Request request;
  Expected expected;
  std::vector<int32_t> tokens;
  uint32_t ends = 0;
  bool cancelled = false;
  bool may_fail = false;  // its numbers were made to fail on purpose
  uint32_t logit_rows = 0;
};

}  // namespace weft::sim
