// Whom an address stands for, where clients are counted.
#pragma once

#include <string>

namespace weft {

// What limits by address count: the address itself, or the first 64 bits of an IPv6 address, which
// is what one household or one machine is given. Each loopback address is one for itself, and an
// IPv4 address in IPv6's form is that IPv4 address. Other text stays what it is.
std::string NetworkOf(const std::string& address);

}  // namespace weft
