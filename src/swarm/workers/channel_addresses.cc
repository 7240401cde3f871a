#include "swarm/workers/channel_addresses.h"

#include <algorithm>
#include <optional>

#include "base/network.h"

namespace weft::swarm {
namespace {

// Workers of this process have an address that is none.
bool IsOnThisMachine(const std::optional<IpAddress>& seen_at) {
  return !seen_at || IsLoopback(*seen_at);
}

}  // namespace

std::vector<DatagramAddress> AddressesToProbe(const Worker& hub, const Worker& holder,
                                              const std::vector<DatagramAddress>& named) {
  const std::optional<IpAddress> hub_at = ParseIp(hub.address), holder_at = ParseIp(holder.address);
  const std::vector<DatagramAddress>& own = hub.offer.datagram_addresses;
  std::vector<DatagramAddress> addresses;
  for (const DatagramAddress& address : named) {
    if (std::find(own.begin(), own.end(), address) == own.end()) continue;
    const bool may_be_its =
        IsLoopback(address.ip)
            ? IsOnThisMachine(hub_at) && IsOnThisMachine(holder_at)
            : !hub_at || IsPrivate(address.ip) || IsSameNetwork(address.ip, *hub_at);
    if (may_be_its) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace weft::swarm
