#include "net/connection_limits.h"

#include "net/address.h"

namespace weft::net {

bool ConnectionCounter::TryAdd(const std::string& address, const ServerLimits& limits) {
  if (total_ >= limits.connections) return false;
  const auto [place, is_new] = by_network_.try_emplace(NetworkOf(address), 0);
  if (place->second >= limits.connections_per_address && !IsLoopbackAddress(address)) {
    if (is_new) by_network_.erase(place);
    return false;
  }
  ++place->second;
  ++total_;
  return true;
}

void ConnectionCounter::Remove(const std::string& address) {
  --total_;
  const auto place = by_network_.find(NetworkOf(address));
  if (--place->second == 0) by_network_.erase(place);
}

bool MayQueue(const ConnectionPlace& place, size_t byte_count, size_t limit, size_t limit_of_all) {
  if (byte_count > limit || place.queued_bytes() > limit - byte_count) return false;
  return place.queued_bytes() == 0 || place.queued_bytes_of_all() + byte_count <= limit_of_all;
}

}  // namespace weft::net
