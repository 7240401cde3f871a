// Strangers: connections that have not said Connect yet. They cost a place each and have shown
// nothing, so they have small limits of their own, by address and in all. Where a limit is reached
// the oldest one goes for the newest: whoever means to join says so within seconds, and whoever
// holds places silently holds them against itself.
#pragma once

#include <optional>
#include <string>

#include "swarm/options.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// Who makes room for another stranger from `network` (base/network.h): the oldest one of that
// network where it is at its limit, or of the network with the most of them where all together are
// at theirs; nullopt: there is room.
std::optional<WorkerId> StrangerToGo(const Roster& roster, const std::string& network,
                                     const CoreOptions& options);

}  // namespace weft::swarm
