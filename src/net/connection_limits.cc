#include "net/connection_limits.h"

#include "net/address.h"

namespace weft::net {

bool ConnectionCounter::TryAdd(const std::string& address, const ServerLimits& limits) {
  const size_t here = by_address_[address];
  if (total_ >= limits.connections ||
      (here >= limits.connections_per_address && !IsLoopbackAddress(address))) {
    if (here == 0) by_address_.erase(address);
    return false;
  }
  ++by_address_[address];
  ++total_;
  return true;
}

}  // namespace weft::net
