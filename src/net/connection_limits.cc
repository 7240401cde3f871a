#include "net/connection_limits.h"

#include <algorithm>
#include <iterator>

#include "base/network.h"
#include "net/address.h"

namespace weft::net {

bool ConnectionCounter::TryAdd(const std::string& address, const ServerLimits& limits,
                               bool is_counted) {
  const std::string network = NetworkOf(address);
  const auto own = by_network_.find(network);
  if (is_counted && !IsLoopbackAddress(address) && own != by_network_.end() &&
      own->second >= limits.connections_per_address && !EndIdle(network)) {
    return false;
  }
  if (total_ >= limits.connections && !EndIdle("")) return false;
  ++by_network_[network];
  ++total_;
  return true;
}

bool ConnectionCounter::EndIdle(const std::string& network) {
  const auto oldest = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& idle) {
    return network.empty() || idle.network == network;
  });
  if (oldest == idle_.end()) return false;
  ConnectionPlace* const place = oldest->place;
  // Ending it takes the entry off the list.
  const std::function<void()> end = oldest->end;
  place->GiveUp();
  end();
  return true;
}

void ConnectionPlace::SetIdle(std::function<void()> end) {
  if (idle_) counter_->idle_.erase(*std::exchange(idle_, std::nullopt));
  if (!end || given_up_) return;
  counter_->idle_.push_back({NetworkOf(address_), this, std::move(end)});
  idle_ = std::prev(counter_->idle_.end());
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
