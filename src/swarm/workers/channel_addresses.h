// Which of a hub's addresses a holder is told of, which then sends probes to them: those that may
// be the hub's own. Whoever could name any would have other people's devices probe for him.
#pragma once

#include <string>
#include <vector>

#include "base/datagram_address.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// Of `named`, in a CHANNEL of the hub, what it has named in Connect and
// - from which it is connected to the server (of IPv6 the same /64), or
// - which only its own network reaches (base/network.h: IsPrivate), or
// - loopback, where both are on this machine.
// The worker of this process may have any other address as well: they are this machine's.
std::vector<DatagramAddress> AddressesToProbe(const Worker& hub, const Worker& holder,
                                              const std::vector<DatagramAddress>& named);

}  // namespace weft::swarm
