// What a holder of experts did for hubs, as these tell it (wire::pb::HolderStats): counted since it
// connected, whichever hubs asked it.
#pragma once

#include <cstdint>

namespace weft::swarm {

struct HolderCounts {
  uint64_t calls = 0;                           // experts that it was asked for
  uint64_t rows = 0;                            // that these were to be computed for
  uint64_t hedges = 0;                          // calls where somebody had been asked already
  uint64_t wins = 0, losses = 0;                // calls that it answered first; that were cancelled
  uint64_t won_hedges = 0, lost_hedges = 0;     // hedges among them
  uint64_t timeouts = 0;                        // messages that it did not answer in time
  uint64_t refused = 0;                         // answers that could not be used
  uint64_t sent_bytes = 0, received_bytes = 0;  // of rows, to it and from it
};

// As a hub has seen it last.
struct HolderTimes {
  double p50_ms = 0, slowest_ms = 0;  // of its last round trips
  double queue_ms = 0;                // what waits there
};

}  // namespace weft::swarm
